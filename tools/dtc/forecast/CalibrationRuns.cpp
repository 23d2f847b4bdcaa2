#include "tools/dtc/forecast/CalibrationRuns.h"

#include "runtime/abi/error.h"
#include "runtime/abi/mapped_file.h"
#include "tools/dtc/Process.h"
#include "tools/dtc/Program.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
namespace fs = std::filesystem;

namespace dtc {

std::string CalibrationRun::name() const { return fmt::format("{} of width {}, {}, {}", family, width, mesh, compute); }

std::vector<CalibrationRun> calibrationRuns(int ranks) {
  struct Size {
    int64_t width, layers, vocabulary, sequence, batch;
  };
  constexpr Size Small{128, 2, 1024, 128, 4}, Middle{320, 2, 2048, 192, 4}, Large{704, 1, 4096, 256, 4};
  std::vector<CalibrationRun> runs;
  auto add = [&](const char *family, const Size &size, int count, const std::string &mesh, const char *strategy,
                 const char *compute) {
    runs.push_back(
        {family, size.width, size.layers, size.vocabulary, size.sequence, size.batch, count, mesh, strategy, compute});
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

static nlohmann::json configOf(const CalibrationRun &run) {
  constexpr int64_t HeadSize = 64;
  int64_t heads = run.width / HeadSize;
  if (run.family == "gpt2")
    return {{"model_type", "gpt2"},       {"vocab_size", run.vocabulary}, {"n_positions", run.sequence},
            {"n_embd", run.width},        {"n_layer", run.layers},        {"n_head", heads},
            {"tie_word_embeddings", true}};
  constexpr int64_t Unit = 32;
  int64_t mlp = (8 * run.width / 3 + Unit - 1) / Unit * Unit; // of three matrices, as much work as of two of 4 width
  return {{"model_type", "llama"},           {"vocab_size", run.vocabulary},
          {"hidden_size", run.width},        {"intermediate_size", mlp},
          {"num_hidden_layers", run.layers}, {"num_attention_heads", heads},
          {"num_key_value_heads", heads},    {"max_position_embeddings", run.sequence},
          {"tie_word_embeddings", false}};
}

/// What it prints is nobody's matter unless it fails.
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

/// Token files of two-byte numbers, as nanoGPT writes them.
static void writeTokens(const std::string &path, int64_t vocabulary, int64_t count) {
  std::mt19937 random(1);
  std::vector<uint16_t> tokens(static_cast<size_t>(count));
  for (uint16_t &token : tokens)
    token = static_cast<uint16_t>(random() % static_cast<unsigned>(vocabulary));
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(tokens.data()), static_cast<std::streamsize>(tokens.size() * 2));
}

static constexpr const char *Dtc = "/proc/self/exe";
static constexpr int64_t Steps = 5;

static std::string programIn(const fs::path &folder) { return folder / "program"; }

static void compile(const CalibrationRun &run, const std::string &target, const fs::path &folder) {
  fs::remove_all(folder);
  fs::create_directories(folder / "model");
  std::ofstream(folder / "model" / "config.json") << configOf(run).dump();
  std::vector<std::string> compile = {Dtc,          "compile", folder / "model", "--mesh", run.mesh, "--strategy",
                                      run.strategy, "-o",      programIn(folder)};
  if (!target.empty())
    compile.insert(compile.end(), {"--target", target});
  for (const std::string &setting :
       {fmt::format("steps={}", Steps), fmt::format("accumulation={}", run.mesh.starts_with("pp") ? run.ranks : 1),
        fmt::format("sequence_length={}", run.sequence), fmt::format("global_batch={}", run.batch * run.ranks),
        "compute=" + run.compute, std::string("dropout=0"), std::string("validation_fraction=0")})
    compile.insert(compile.end(), {"--set", setting});
  carryOut(compile, run);
}

CalibrationProgram::CalibrationProgram(CalibrationRun run, const std::string &target, std::string folder)
    : run(std::move(run)), folder(std::move(folder)) {
  compile(this->run, target, this->folder);
}

void CalibrationProgram::carryOut() {
  std::string program = programIn(folder), data = fs::path(folder) / "data.bin", out = fs::path(folder) / "out";
  fs::remove_all(out);
  constexpr int64_t Batches = 4; // in the file
  writeTokens(data, run.vocabulary, Batches * run.batch * run.ranks * (run.sequence + 1));
  dtc::carryOut({Dtc, "run", program, "--data", data, "--data-format", "nanogpt", "--out", out, "--trace",
                 fmt::format("3-{}", Steps)},
                run);
  abi::Manifest manifest = readManifest(program);
  MeasuredTrace trace(manifest, fs::path(out) / "trace.json");
  kernels.insert(kernels.end(), trace.kernels().begin(), trace.kernels().end());
  steps.insert(steps.end(), trace.steps().begin(), trace.steps().end());
  hosts.insert(hosts.end(), trace.hosts().begin(), trace.hosts().end());
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
