// The runtime's inputs: safetensors, token files, checkpoints, settings and programs. Independent of MLIR.
#include "runtime/abi/container.h"
#include "runtime/abi/roles.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/config/training_config.h"
#include "runtime/data/sampler.h"
#include "runtime/data/token_writer.h"
#include "runtime/device/cpu_device.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/validate.h"
#include "runtime/program/train/step.h"
#include "runtime/support/error.h"
#include "runtime/weights/safetensors.h"
#include "test/fuzz/harness.h"
#include "test/fuzz/mutators.h"
#include "test/runtime/program/toy_model.h"
#include "test/runtime/temporary_directory.h"
#include "timing/certify/certify.h"
#include "tools/dtc/Verbs.h"

#include <cstdio>
#include <cstdlib>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

using namespace dtc;
using namespace dtc::fuzz;

namespace {

test::TemporaryDirectory *directory; // of this process; children write their mutants into it

std::string write(const std::string &name, std::string_view bytes) { return directory->write(name, bytes); }

/// The only rank that runs, whatever the mesh.
class Alone : public Communicator {
public:
  explicit Alone(int ranks) : ranks(ranks) {}
  int rank() const override { return 0; }
  int size() const override { return ranks; }
  CommunicatorCapabilities capabilities() const override { return {true, true, true, true}; }
  CommandHandle start(const Group &, const abi::Command &) override { return {}; }
  CommandTimes wait(const CommandHandle &) override { return {}; }
  std::vector<int64_t> exchange(int64_t value) override { return std::vector<int64_t>(ranks, value); }
  void poison(std::string_view) noexcept override {}

private:
  int ranks;
};

//===----------------------------------------------------------------------===//
// Files of numbers
//===----------------------------------------------------------------------===//

std::string safetensorsSeed() {
  auto layout = layoutSafetensors({{"wte.weight", {5, 4}}, {"h.0.b", {3}}, {"scalar", {}}}, {{"format", "pt"}});
  std::string file = layout.header;
  file.resize(layout.fileBytes, 'x');
  return file;
}

void readSafetensors(const std::string &mutant) {
  SafetensorsFile file(write("mutant.safetensors", mutant));
  for (const SafetensorsEntry &entry : file.entries()) {
    if (file.bytes(entry).size() != entry.end - entry.begin)
      throw Finding("an entry's bytes are not its own");
    // Values of types other than the four numeric ones are refused here, which is right.
    uint64_t elements = std::min<uint64_t>(entry.elements(), 1 << 20);
    std::vector<float> values(elements);
    if (entry.type == "F32" || entry.type == "BF16" || entry.type == "F16")
      file.read(entry, 0, 1, values);
  }
}

std::string tokenSeed(Random &random) {
  std::vector<uint16_t> tokens(200);
  for (uint16_t &token : tokens)
    token = static_cast<uint16_t>(random.below(5));
  writeTokenFile(*directory / "seed.bin", tokens);
  return test::readFile(*directory / "seed.bin");
}

void readTokens(const std::string &mutant) {
  TokenData file({write("mutant.bin", mutant)});
  Sampler sampler(file, {4, 5, 0.1, 1});
  std::vector<int32_t> tokens(3 * 4), targets(3 * 4);
  BatchSlice slice{0, 3, 0, 4, 3, 4};
  for (int64_t position : {int64_t(0), sampler.trainingSamples() - 1, int64_t(1) << 40})
    for (auto [part, values] : {std::pair(SamplePart::Tokens, &tokens), std::pair(SamplePart::Targets, &targets)}) {
      sampler.fillTraining(part, position, slice, *values);
      sampler.fillValidation(part, 0, slice, *values);
    }
  for (int32_t token : tokens)
    if (token < 0 || token >= 5)
      throw Finding("a token outside the vocabulary reached a batch");
}

/// An index of a few documents; tokens of 200 zeros belong to it.
std::string indexSeed(Random &random) {
  TokenFileWriter writer(*directory / "seed.bin", {.format = TokenFile::Format::Megatron});
  for (int token = 0; token < 200; ++token) {
    writer.append(std::vector<uint16_t>{0});
    if (random.below(20) == 0)
      writer.endDocument();
  }
  writer.publish();
  std::string index = test::readFile(*directory / "seed.idx");
  std::filesystem::remove(*directory / "seed.idx"); // another target's file has this name
  return index;
}

void readIndex(const std::string &mutant) {
  write("indexed.idx", mutant);
  TokenData file({write("indexed.bin", std::string(400, '\0'))}, TokenFile::Format::Megatron);
  Sampler sampler(file, {4, 5, 0.1, 1});
  std::vector<int32_t> starts(3 * 4);
  sampler.fillTraining(SamplePart::DocumentStarts, 0, {0, 3, 0, 4, 3, 4}, starts);
  if (!std::ranges::all_of(starts, [](int32_t start) { return start >= 0 && start < 4; }))
    throw Finding("a document begins outside its sample");
  size_t before = 0;
  for (size_t begin : file.documentsIn(0, file.size())) {
    if (begin >= file.size() || (begin != 0 && begin <= before))
      throw Finding("documents do not ascend");
    before = begin;
  }
}

//===----------------------------------------------------------------------===//
// Settings
//===----------------------------------------------------------------------===//

void readSettings(const std::string &mutant) {
  abi::Training training = readTraining(write("train.toml", mutant), {});
  abi::Training again = readTraining(write("again.toml", printTraining(training)), {});
  if (training.SerializeAsString() != again.SerializeAsString())
    throw Finding("accepted settings do not read back as they were printed");
}

//===----------------------------------------------------------------------===//
// Checkpoints
//===----------------------------------------------------------------------===//

/// A toy's state and a checkpoint of it.
struct Checkpoint {
  Checkpoint()
      : manifest(test::toyManifest({})), arena(manifest.roles(0).arena_bytes(), manifest.roles(0).shared_begin()),
        alone(1), state(manifest, 0, device, arena) {
    state.initialize(1, 1);
    TrainerState trainer;
    trainer.step = 3;
    trainer.samples = 12;
    trainer.seed = 1;
    trainer.sequenceLength = manifest.training().sequence_length();
    path = saveCheckpoint(state, alone, directory->path, trainer);
    for (const auto &entry : std::filesystem::directory_iterator(path))
      files.push_back(entry.path().filename());
    std::ranges::sort(files);
  }
  std::string file(const std::string &name) const { return (std::filesystem::path(path) / name).string(); }
  void load() const { loadCheckpoint(state, const_cast<Alone &>(alone), path); }

  abi::Manifest manifest;
  Arena arena;
  CpuDevice device{1};
  Alone alone;
  RankState state;
  std::string path;
  std::vector<std::string> files;
};

const Checkpoint &checkpoint() {
  static Checkpoint checkpoint;
  return checkpoint;
}

void loadTrainerState(const std::string &mutant) {
  std::ofstream(checkpoint().file("trainer_state.json"), std::ios::binary | std::ios::trunc) << mutant;
  checkpoint().load();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// An ELF file, as much of it as a container examines.
std::string tinyRuntime() {
  std::string bytes(4096, '\0');
  Elf64_Ehdr header = {};
  std::copy_n(ELFMAG, SELFMAG, header.e_ident);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shoff = bytes.size() - 64;
  header.e_shentsize = 64;
  header.e_shnum = 1;
  std::copy_n(reinterpret_cast<const char *>(&header), sizeof(header), bytes.data());
  return bytes;
}

std::string writeSeedProgram(std::string_view manifest) {
  std::string path = *directory / "program";
  writeProgram(write("runtime", tinyRuntime()), manifest, std::string(5000, 'k'), path);
  return path;
}

const std::string &programSeed() {
  static std::string bytes = test::readFile(writeSeedProgram(test::toyManifest({}).SerializeAsString()));
  return bytes;
}

void readProgram(const std::string &mutant) {
  ProgramFile file(write("mutant", mutant));
  parseManifest(file.manifest(), "mutant");
}

/// Initial manifests: toys, and those of the programs that DTC_FUZZ_PROGRAMS names, separated by colons.
std::vector<std::string> manifestSeeds() {
  std::vector<std::string> seeds;
  for (int64_t dp : {1, 2})
    for (int64_t tp : {1, 2}) {
      test::ToyOptions options;
      options.dp = dp;
      options.tp = tp;
      seeds.push_back(test::toyManifest(options).SerializeAsString());
    }
  const char *programs = std::getenv("DTC_FUZZ_PROGRAMS");
  std::stringstream list(programs ? programs : "");
  for (std::string path; std::getline(list, path, ':');)
    seeds.emplace_back(ProgramFile(path).manifest());
  return seeds;
}

void noKernel(void *const *, const int64_t *, int64_t, int64_t) {}

/// Everything a program does before its first step, on its first rank.
void start(const abi::Manifest &manifest) {
  const abi::Role &role = abi::roleOf(manifest, 0);
  if (role.arena_bytes() > (64 << 20) || role.host_bytes() > (64 << 20)) // valid, but not here
    return;
  Arena arena(role.arena_bytes(), role.shared_begin()), host(role.host_bytes(), role.host_bytes());
  Alone alone(Mesh(manifest.mesh()).ranks());
  CpuDevice device(1, [](const abi::Kernel &) { return noKernel; });
  Executor executor(manifest, alone, device, arena, &host);
  RankState state(manifest, 0, device, arena);
  state.initialize(manifest.training().seed(), 1);
  std::vector<uint16_t> tokens(1000);
  std::string path = *directory / "tokens.bin";
  writeTokenFile(path, tokens);
  TokenData file({path});
  Sampler sampler(file, {manifest.training().sequence_length(), 1, manifest.training().validation_fraction(),
                         manifest.training().seed()});
  StepRunner runner(executor, sampler, manifest.training());
}

void look(const std::string &verb, const std::string &path) {
  CLI::App app;
  addInspect(app);
  addExplain(app);
  app.parse(verb + " " + path);
  app.parse(verb + " --json " + path);
}

void readManifest(const std::string &mutant) {
  std::string path = writeSeedProgram(mutant);
  static FILE *quiet = std::freopen("/dev/null", "w", stdout); // the tools print
  (void)quiet;
  abi::Manifest manifest = parseManifest(ProgramFile(path).manifest(), "mutant");
  look("inspect", path);
  look("explain", path);
  start(manifest);
  timing::certify(manifest); // as dtc verify does
}

/// A change that changes nothing proves nothing.
template <typename Mutate> std::string different(const std::string &seed, Mutate mutate) {
  std::string mutant = seed;
  while (mutant == seed)
    mutant = mutate();
  return mutant;
}

std::vector<Target> targets() {
  std::string trainer = test::readFile(checkpoint().file("trainer_state.json"));
  std::string settings = printTraining(defaultTraining());
  std::vector<std::string> manifests = manifestSeeds();
  return {
      {"safetensors", [](Random &random) { return mutateSafetensors(random, safetensorsSeed()); }, readSafetensors},
      {"tokens", [](Random &random) { return mutateBytes(random, tokenSeed(random)); }, readTokens},
      {"index", [](Random &random) { return mutateBytes(random, indexSeed(random)); }, readIndex},
      {"toml", [=](Random &random) { return mutateText(random, settings, tomlFormat()); }, readSettings},
      {"trainer", [=](Random &random) { return mutateText(random, trainer, jsonFormat()); }, loadTrainerState},
      {"manifest", [=](Random &random) { return mutateManifest(random, random.pick(manifests)); }, readManifest},
      {"program-flip", [](Random &random) { return flipBit(random, programSeed()); }, readProgram, true},
      {"program-bytes",
       [](Random &random) { return different(programSeed(), [&] { return mutateBytes(random, programSeed()); }); },
       readProgram, true},
  };
}

} // namespace

int main(int argc, char **argv) {
  test::TemporaryDirectory temporary;
  directory = &temporary;
  return runTargets(targets(), argc, argv);
}
