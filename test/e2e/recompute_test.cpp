// Recomputation between the forward and the backward pass: no number changes, and less is kept.
#include "test/e2e/training_job.h"
#include "test/long_tests.h"
#include "test/runtime/temporary_directory.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>

namespace dtc::test {
namespace {

bool offloads(std::string_view way) { return way.find("offload") != way.npos; }

bool isPipeline(const Layout &layout) { return std::string_view(layout.mesh).find("pp") != std::string_view::npos; }

struct Trained {
  const char *name;
  Case model;
  bool isGpu = false;
  /// The library computes an activation from values that nobody keeps: recomputed from the rounded sum it differs.
  bool fusesActivations = false;
};

void PrintTo(const Trained &each, std::ostream *out) { *out << each.name; }

/// Excludes ways that recompute the activations of only some layers, where that changes values.
std::vector<std::string> waysOf(const Trained &each) {
  std::vector<std::string> ways{"none", "cheap", "regather", "selective", "full", "every:2"};
  if (!isPipeline(each.model.layout))
    ways.emplace_back("offload");
  if (each.fusesActivations)
    return ways;
  if (!isPipeline(each.model.layout))
    ways.emplace_back("2 offload, 1 selective, 1 none");
  bool isGpt = std::string_view(each.model.model) == "gpt-small";
  ways.emplace_back("1 full, 2 cheap, 1 none");
  ways.emplace_back(isGpt ? "1 regather, 3 keep contract attn.c_attn + add layer_norm ln_2"
                          : "1 regather, 3 keep contract self_attn.v_proj + contract mlp.up_proj");
  return ways;
}

Choices choicesOf(const std::string &way) {
  Choices choices;
  choices.recompute = {{"*", *parseRecomputeRuns(way), ""}};
  return choices;
}

/// Of all files in a folder, by their names.
std::map<std::string, std::string> contentsOf(const std::string &folder) {
  std::map<std::string, std::string> contents;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) {
      std::ifstream file(entry.path(), std::ios::binary);
      contents[entry.path().filename()] = std::string(std::istreambuf_iterator<char>(file), {});
    }
  return contents;
}

/// Of all roles together, without the padding of pages.
uint64_t memoryOf(const abi::Manifest &manifest) {
  uint64_t bytes = 0;
  for (const abi::Role &role : manifest.roles())
    for (const abi::MemoryUse &use : role.memory())
      bytes += use.category() == "alignment" ? 0 : use.bytes();
  return bytes;
}

class Recomputed : public testing::TestWithParam<Trained> {
protected:
  Recomputed() { writeTokens(directory / "tokens.bin"); }

  TemporaryDirectory directory;
};

// Losses, norms, parameters and the optimizer's state, bit by bit.
TEST_P(Recomputed, GivesTheSameBits) {
  if (GetParam().isGpu && !GetParam().fusesActivations && !testsMayBeLong())
    GTEST_SKIP() << "only with DTC_LONG_TESTS: each way trains on the stand-in for GPUs";
  using State = std::map<std::string, std::string>;
  std::map<bool, std::pair<std::vector<double>, State>> first; // keyed by whether activations are recomputed
  for (const std::string &way : waysOf(GetParam())) {
    SCOPED_TRACE(way);
    bool isOfInputs = GetParam().fusesActivations &&
                      (way == "cheap" || way == "regather" || way == "selective" || way == "offload");
    Job job(GetParam().model, GetParam().isGpu, directory / "tokens.bin", /*graphs=*/true, {}, choicesOf(way));
    ASSERT_TRUE(job.compiled.succeeded);
    std::vector<double> got = job.train(0, 3);
    got.push_back(job.evaluate());
    State saved = contentsOf(job.save(directory / way, 3));
    EXPECT_GT(saved.size(), 1U);
    const auto &[numbers, state] = first.try_emplace(isOfInputs, got, saved).first->second;
    EXPECT_EQ(got, numbers);
    EXPECT_TRUE(saved == state);
  }
}

// The command list computes what the model means.
TEST_P(Recomputed, IsVerified) {
  const Case &each = GetParam().model;
  for (const char *way : {"selective", "full", "every:2", "offload"}) {
    if (offloads(way) && isPipeline(each.layout))
      continue;
    ModelSetup setup = smallSetup(each.model, each.layout,
                                  {.compute = each.compute,
                                   .target = GetParam().isGpu ? "cuda:sm_90" : "native",
                                   .timetable = each.timetable,
                                   .choices = choicesOf(way)});
    setup.symbols = symbolsOf(each);
    CompiledModel compiled(setup);
    ASSERT_TRUE(compiled.expectation);
    verify::VerifyReport report = verify::verify(*compiled.expectation, compiled.manifest, verify::f64Tolerance);
    EXPECT_EQ(report.failure, "") << way;
  }
}

constexpr Layout one{"one", "dp=1", "ddp", 1}, accumulated{"accumulated", "dp=1", "ddp", 3},
    ddp{"ddp", "dp=2", "ddp", 2}, tensors{"tp", "tp=2", "megatron", 2},
    sequence{"megatron_sp", "tp=2", "megatron-sp", 1}, pieces{"zero3", "dp=2", "zero3", 2},
    both{"sp_zero3", "dp=2,tp=2", "megatron-sp+zero3", 1}, pipeline{"pp", "pp=2", "ddp", 3},
    pipelines{"pp_tp", "tp=2,pp=2", "megatron", 2}, pipelineOfPieces{"pp_zero3", "dp=2,pp=2", "zero3", 2};

Case of(const char *model, const Layout &layout, const char *compute, const char *timetable = "1f1b") {
  return {model, layout, compute, 0, false, false, timetable, /*layers=*/4};
}

INSTANTIATE_TEST_SUITE_P(Models, Recomputed,
                         testing::Values(Trained{"gpt", of("gpt-small", one, "f32")},
                                         Trained{"gpt_bf16", of("gpt-small", one, "bf16")},
                                         Trained{"gpt_f16_accumulated", of("gpt-small", accumulated, "f16")},
                                         Trained{"llama_bf16_accumulated", of("llama-small", accumulated, "bf16")},
                                         Trained{"llama_ddp", of("llama-small", ddp, "f32")},
                                         Trained{"gpt_tp_bf16", of("gpt-small", tensors, "bf16")},
                                         Trained{"llama_tp", of("llama-small", tensors, "f32")},
                                         Trained{"gpt_sp_bf16", of("gpt-small", sequence, "bf16")},
                                         Trained{"llama_sp_bf16", of("llama-small", sequence, "bf16")},
                                         Trained{"gpt_zero3_bf16", of("gpt-small", pieces, "bf16")},
                                         Trained{"llama_zero3", of("llama-small", pieces, "f32")},
                                         Trained{"gpt_sp_zero3_bf16", of("gpt-small", both, "bf16")},
                                         Trained{"gpt_pp_bf16", of("gpt-small", pipeline, "bf16")},
                                         Trained{"llama_pp_gpipe", of("llama-small", pipeline, "f32", "gpipe")},
                                         Trained{"gpt_pp_tp_bf16", of("gpt-small", pipelines, "bf16")},
                                         Trained{"llama_pp_zero3_bf16", of("llama-small", pipelineOfPieces, "bf16")},
                                         Trained{"gpt_gpu", of("gpt-small", accumulated, "bf16"), true, true},
                                         Trained{"llama_zero3_gpu", of("llama-small", pieces, "bf16"), true}),
                         [](const auto &info) { return std::string(info.param.name); });

uint64_t plannedMemory(const std::string &way, const Layout &layout, const char *model = "gpt-small") {
  ModelSetup setup =
      smallSetup(model, layout, {.batch = 8, .sequence = 64, .expect = false, .choices = choicesOf(way)});
  setup.symbols["layers"] = 9;
  setup.symbols["embed"] = 32, setup.symbols["head_dim"] = 8, setup.symbols["mlp"] = 128;
  setup.symbols["positions"] = 64;
  CompiledModel compiled(setup);
  EXPECT_TRUE(compiled.succeeded);
  return memoryOf(compiled.manifest);
}

TEST(RecomputedMemory, FallsWithWhatIsKept) {
  for (const Layout &layout : {one, ddp, tensors, sequence, pieces, pipeline}) {
    SCOPED_TRACE(layout.name);
    uint64_t none = plannedMemory("none", layout), cheap = plannedMemory("cheap", layout),
             selective = plannedMemory("selective", layout), some = plannedMemory("5 full, 4 cheap", layout),
             full = plannedMemory("full", layout);
    EXPECT_LT(cheap, none);
    EXPECT_LT(selective, cheap);
    EXPECT_LT(some, cheap);
    EXPECT_LT(full, some);
  }
}

// What leaves a device is in the host's memory, and no more of it is back at a time than two layers have.
TEST(RecomputedMemory, FallsWithWhatLeavesForTheHost) {
  for (const Layout &layout : {one, ddp, tensors, sequence, pieces}) {
    SCOPED_TRACE(layout.name);
    uint64_t cheap = plannedMemory("cheap", layout), some = plannedMemory("5 offload, 4 cheap", layout),
             all = plannedMemory("offload", layout);
    EXPECT_LT(some, cheap);
    EXPECT_LT(all, some);
  }
}

} // namespace
} // namespace dtc::test
