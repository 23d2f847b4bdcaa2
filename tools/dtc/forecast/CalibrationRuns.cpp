#include "tools/dtc/forecast/CalibrationRuns.h"

#include "runtime/abi/roles.h"
#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"
#include "tools/dtc/Process.h"
#include "tools/dtc/Program.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
namespace fs = std::filesystem;

namespace dtc {

std::string CalibrationRun::name() const { return fmt::format("{} of width {}, {}, {}", family, width, mesh, compute); }

namespace {
struct Size {
  int64_t width, layers, vocabulary, sequence, batch;

  CalibrationRun run(const char *family, const char *compute) const {
    return {family, width, layers, vocabulary, sequence, batch, 1, "dp=1", "ddp", compute};
  }
};
} // namespace

std::vector<CalibrationRun> calibrationRuns(int ranks) {
  constexpr Size Small{128, 2, 1024, 128, 4}, Middle{320, 2, 2048, 192, 4}, Large{704, 1, 4096, 256, 4};
  std::vector<CalibrationRun> runs;
  auto add = [&](const char *family, const Size &size, int count, const std::string &mesh, const char *strategy,
                 const char *compute) {
    CalibrationRun &run = runs.emplace_back(size.run(family, compute));
    run.ranks = count;
    run.mesh = mesh;
    run.strategy = strategy;
  };
  std::string dp = fmt::format("dp={}", ranks), tp = fmt::format("tp={}", ranks);
  for (const char *compute : {"f32", "bf16"}) {
    for (const Size &size : {Small, Middle, Large})
      for (const char *family : {"gpt2", "llama"})
        add(family, size, 1, "dp=1", "ddp", compute);
    if (ranks == 1)
      continue;
    add("gpt2", Small, ranks, tp, "megatron", compute);
    add("llama", Small, ranks, dp, "zero3", compute);
    add("gpt2", Middle, ranks, dp, "ddp", compute);
    add("llama", Middle, ranks, tp, "megatron-sp", compute);
    add("gpt2", Large, ranks, tp, "megatron", compute);
    add("gpt2", Middle, ranks, fmt::format("pp={}", ranks), "ddp", compute);
    add("llama", Large, ranks, dp, "zero3", compute);
  }
  return runs;
}

std::vector<CalibrationRun> gpuCalibrationRuns() {
  constexpr Size Small{512, 2, 8192, 512, 8}, Middle{1024, 2, 16384, 1024, 8}, Large{2048, 1, 32768, 1024, 8};
  constexpr Size Widest{4096, 1, 8192, 2048, 2};
  constexpr Size Deep{512, 12, 8192, 512, 8}; // separates the cost of a launch from that of a step
  std::vector<CalibrationRun> runs;
  for (const Size &size : {Small, Middle, Large})
    for (const char *family : {"gpt2", "llama"})
      for (const char *compute : {"f32", "bf16"})
        runs.push_back(size.run(family, compute));
  for (const Size &size : {Widest, Deep})
    runs.push_back(size.run("gpt2", "bf16"));
  for (CalibrationRun &run : runs)
    if (run.family == "gpt2")
      ++run.vocabulary; // rows of an odd length are copied into longer ones
  return runs;
}

static nlohmann::json configOf(const CalibrationRun &run) {
  constexpr int64_t HeadSize = 64;
  int64_t heads = run.width / HeadSize;
  if (run.family == "gpt2")
    return {{"model_type", "gpt2"},       {"vocab_size", run.vocabulary}, {"n_positions", run.sequence},
            {"n_embd", run.width},        {"n_layer", run.layers},        {"n_head", heads},
            {"tie_word_embeddings", true}};
  constexpr int64_t Unit = 32, Many = 16, QueriesOfKey = 4;   // where there are many heads
  int64_t mlp = (8 * run.width / 3 + Unit - 1) / Unit * Unit; // three such matrices do the work of two of 4 width
  return {{"model_type", "llama"},
          {"vocab_size", run.vocabulary},
          {"hidden_size", run.width},
          {"intermediate_size", mlp},
          {"num_hidden_layers", run.layers},
          {"num_attention_heads", heads},
          {"num_key_value_heads", heads < Many ? heads : heads / QueriesOfKey},
          {"max_position_embeddings", run.sequence},
          {"tie_word_embeddings", false}};
}

/// Its output does not matter unless it fails.
static void carryOut(const std::vector<std::string> &command, const CalibrationRun &run) {
  std::string said;
  int code = runProcess(command, [&](const std::string &line) {
    said += line + "\n";
    return true;
  });
  if (code != 0)
    throw Error(
        fmt::format("calibrating with {}: '{}' ended with exit code {}\n{}", run.name(), command[1], code, said));
}

/// Writes token files of two-byte numbers, as nanoGPT does.
static void writeTokens(const std::string &path, int64_t vocabulary, int64_t count) {
  std::mt19937 random(1);
  std::vector<uint16_t> tokens(static_cast<size_t>(count));
  for (uint16_t &token : tokens)
    token = static_cast<uint16_t>(random() % static_cast<unsigned>(vocabulary));
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(tokens.data()), static_cast<std::streamsize>(tokens.size() * 2));
}

static constexpr const char *Dtc = "/proc/self/exe";

namespace {
/// How many steps a program runs, and from which step on they are traced. In a GPU's first three steps, algorithms are
/// chosen and graphs are captured; the steps from there to the first traced one run without the cost of a trace.
struct Steps {
  int64_t settled, traced, last;
};
} // namespace

static constexpr Steps OfProcessor{3, 3, 5}, OfGpu{4, 10, 12};

static std::string programIn(const fs::path &folder) { return folder / "program"; }

static void compile(const CalibrationRun &run, const std::string &target, const fs::path &folder) {
  fs::create_directories(folder / "model");
  std::ofstream(folder / "model" / "config.json") << configOf(run).dump();
  std::vector<std::string> compile = {Dtc,          "compile", folder / "model", "--mesh", run.mesh, "--strategy",
                                      run.strategy, "-o",      programIn(folder)};
  if (!target.empty())
    compile.insert(compile.end(), {"--target", target});
  for (const std::string &setting :
       {fmt::format("steps={}", OfGpu.last), fmt::format("accumulation={}", run.mesh.starts_with("pp") ? run.ranks : 1),
        fmt::format("sequence_length={}", run.sequence), fmt::format("global_batch={}", run.batch * run.ranks),
        "compute=" + run.compute, std::string("dropout=0"), std::string("validation_fraction=0")})
    compile.insert(compile.end(), {"--set", setting});
  carryOut(compile, run);
}

CalibrationProgram::CalibrationProgram(CalibrationRun run, const std::string &target, std::string folder)
    : run(std::move(run)), folder(std::move(folder)) {
  if (!fs::exists(programIn(this->folder)))
    compile(this->run, target, this->folder);
}

/// Seconds of each step from `first` to before `end`, from a run's metrics.
static std::vector<double> stepsOf(const fs::path &metrics, int64_t first, int64_t end) {
  std::vector<double> seconds;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);)
    if (nlohmann::json step = nlohmann::json::parse(line); step.contains("time_metrics/end_to_end(s)"))
      if (int64_t number = step.at("step"); number >= first && number < end)
        seconds.push_back(step.at("time_metrics/end_to_end(s)"));
  return seconds;
}

double takeOffTracing(std::vector<CalibrationProgram> &programs) {
  std::vector<timing::TracedRun> runs;
  for (const CalibrationProgram &program : programs)
    runs.insert(runs.end(), program.traced.begin(), program.traced.end());
  timing::TracingCost cost = timing::fitTracing(runs);
  constexpr double Least = 0.1; // of a kernel's time is always kept
  for (CalibrationProgram &program : programs)
    for (timing::Observation &kernel : program.kernels)
      kernel.seconds = std::max(kernel.seconds - cost.launch, Least * kernel.seconds);
  return cost.step;
}

/// Kernels of a step, with and without a trace.
static timing::TracedRun compare(const MeasuredTrace &trace, double untraced) {
  auto steps = static_cast<double>(trace.steps().size());
  timing::TracedRun run{static_cast<double>(trace.kernels().size()) / steps, 0, untraced};
  for (const timing::Observation &kernel : trace.kernels())
    run.kernels += kernel.seconds / steps;
  return run;
}

static int64_t vocabularyOf(const abi::Manifest &manifest) {
  for (const abi::Symbol &symbol : manifest.symbols())
    if (symbol.name() == "vocab")
      return symbol.size();
  return 1; // token 0, which all models have
}

void CalibrationProgram::carryOut() {
  std::string program = programIn(folder), data = fs::path(folder) / "data.bin", tuned = fs::path(folder) / "tuned";
  fs::path out = fs::path(folder) / "out";
  fs::remove_all(out);
  abi::Manifest manifest = readManifest(program);
  bool isForGpu = abi::isForGpus(manifest);
  const Steps &of = isForGpu ? OfGpu : OfProcessor;
  constexpr int64_t Batches = 4; // in the file
  writeTokens(data, vocabularyOf(manifest), Batches * run.batch * run.ranks * (run.sequence + 1));
  std::vector<std::string> command = {Dtc,
                                      "run",
                                      program,
                                      "--data",
                                      data,
                                      "--data-format",
                                      "nanogpt",
                                      "--out",
                                      out,
                                      "--steps",
                                      std::to_string(of.last),
                                      "--trace",
                                      fmt::format("{}-{}", of.traced, of.last)};
  if (isForGpu)
    command.insert(command.end(), {"--tune", tuned});
  dtc::carryOut(command, run);
  MeasuredTrace trace(manifest, out / "trace.json");
  std::vector<double> timed = isForGpu ? stepsOf(out / "metrics.jsonl", of.settled, of.traced) : trace.steps();
  if (isForGpu)
    traced.push_back(compare(trace, timing::median(timed)));
  kernels.insert(kernels.end(), trace.kernels().begin(), trace.kernels().end());
  steps.insert(steps.end(), timed.begin(), timed.end());
  hosts.insert(hosts.end(), trace.hosts().begin(), trace.hosts().end());
  fs::remove_all(out / "checkpoints"); // the only large files
}

std::vector<MeasuredMove> measureLinks(int ranks, const std::vector<std::string> &runOptions,
                                       const std::string &folder) {
  CalibrationRun run{"gpt2", 64, 1, 64, 16, 1, ranks, fmt::format("dp={}", ranks), "ddp", "f32"};
  compile(run, "", folder);
  std::string moves = fs::path(folder) / "moves.json";
  std::vector<std::string> command = {Dtc, "run"};
  command.insert(command.end(), runOptions.begin(), runOptions.end());
  command.insert(command.end(), {programIn(folder), "--probe-links", moves});
  carryOut(command, run);
  return readMoves(std::string(MappedFile(moves).text()));
}

} // namespace dtc
