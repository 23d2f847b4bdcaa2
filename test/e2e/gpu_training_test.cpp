// Training by a program for GPUs, on the stand-in for NVIDIA's driver, next to the same by a program for the processor.
#include "test/e2e/training_job.h"
#include "test/gpu/variable.h"
#include "test/runtime/temporary_directory.h"

#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>

namespace dtc::test {
namespace {

constexpr int64_t Steps = 10;

class GpuTraining : public testing::TestWithParam<Case> {
protected:
  GpuTraining() { writeTokens(directory / "tokens.bin"); }

  /// Losses and norms in turn. Norms may differ twice as much: AdamW moves a weight whose gradient is hardly more than
  /// rounding as far as any other, which hardly affects the loss, but does affect the next gradients.
  static void expectClose(const std::vector<double> &got, const std::vector<double> &want) {
    ASSERT_EQ(got.size(), want.size());
    double largest = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      bool isNorm = i % 2 == 1;
      if (!isNorm)
        largest = std::max(largest, std::abs(got[i] - want[i]) / std::abs(want[i]));
      EXPECT_NEAR(got[i], want[i], (isNorm ? 2 : 1) * GetParam().tolerance * std::abs(want[i])) << "number " << i;
    }
    RecordProperty("largest_relative_difference", fmt::format("{:.2g}", largest));
  }

  TemporaryDirectory directory;
};

// Dropout, clipping and, in some cases, accumulation included.
TEST_P(GpuTraining, LosesAsTheProcessorDoes) {
  Job cpu(GetParam(), /*isGpu=*/false, directory / "tokens.bin"), gpu(GetParam(), true, directory / "tokens.bin");
  ASSERT_TRUE(cpu.compiled.succeeded && gpu.compiled.succeeded);
  std::vector<double> want = cpu.train(0, Steps), got = gpu.train(0, Steps);
  EXPECT_LT(want[2 * Steps - 2], want[0]) << "nothing was learnt";
  expectClose(got, want);
  expectClose({gpu.evaluate()}, {cpu.evaluate()});
}

/// How often a list launches each library kernel, named by the symbol.
std::map<std::string, int> libraryLaunches(const abi::Manifest &manifest, std::string_view list) {
  std::map<std::string, int> counts;
  for (const abi::CommandList &each : manifest.lists())
    for (const abi::Command &command : each.commands())
      if (each.name() == list && command.has_launch())
        if (const abi::Kernel &kernel = manifest.kernels(int(command.launch().kernel())); kernel.library())
          ++counts[kernel.symbol()];
  std::erase_if(counts, [](const auto &count) {
    return !count.first.starts_with("dtc_cuda_product") && count.first != "dtc_cuda_gemm";
  });
  return counts;
}

using Counts = std::map<std::string, int>;

// Two layers: in each, the projection to q, k and v has only a bias, and the hidden layer of the MLP has GELU. The
// other two biases belong to the kernels of the residuals. A micro-batch after the first adds to five gradients: four
// of each layer and the embedding's.
TEST(GpuProducts, TakeTheirEpilogues) {
  for (const char *compute : {"f32", "bf16"}) {
    SCOPED_TRACE(compute);
    Layout accumulated = {"accumulated", "dp=1", "ddp", 2};
    std::map<std::string, int64_t> symbols = symbolsOf({"gpt-small", accumulated, compute, 0});
    symbols["vocab"] = 16; // otherwise rows of logits are padded, and the embedding's gradient is a part of a product
    CompiledModel gpt({.model = "gpt-small",
                       .mesh = "dp=1",
                       .strategy = "ddp",
                       .accumulation = 2,
                       .batch = Batch,
                       .sequence = Sequence,
                       .symbols = symbols,
                       .dropout = 0.1,
                       .generateCode = false,
                       .expect = false,
                       .compute = compute,
                       .target = "cuda:sm_90"});
    ASSERT_TRUE(gpt.succeeded);
    Counts forward = {{"dtc_cuda_product$bias", 2}, {"dtc_cuda_product$gelu_bias", 2}, {"dtc_cuda_gemm", 2 * 2 + 1}};
    EXPECT_EQ(libraryLaunches(gpt.manifest, "eval"), forward);
    Counts first = {{"dtc_cuda_product$bias", 2},
                    {"dtc_cuda_product$gelu_aux_bias", 2},
                    {"dtc_cuda_product$gelu_gradient", 2},
                    {"dtc_cuda_gemm", 2 * (2 + 3 + 4) + 1 + 2}};
    EXPECT_EQ(libraryLaunches(gpt.manifest, "micro"), first);
    Counts last = first;
    last["dtc_cuda_product$accumulate"] = 2 * 4 + 1;
    last["dtc_cuda_gemm"] -= 2 * 4 + 1;
    EXPECT_EQ(libraryLaunches(gpt.manifest, "micro_last"), last);
  }
}

class GpuCheckpoints : public GpuTraining {};

// Each resumes from the other's checkpoint.
TEST_P(GpuCheckpoints, ReadsTheProcessorsCheckpointsAndWritesItsOwn) {
  Job cpu(GetParam(), /*isGpu=*/false, directory / "tokens.bin"), gpu(GetParam(), true, directory / "tokens.bin");
  cpu.train(0, 2);
  gpu.load(cpu.save(directory / "cpu", 2));
  std::vector<double> got = gpu.train(2, 4), want = cpu.train(2, 4);
  expectClose(got, want);
  cpu.load(gpu.save(directory / "gpu", 4));
  expectClose(gpu.train(4, 6), cpu.train(4, 6));
}

class GpuAttentionOfCudnn : public GpuTraining {};

TEST_P(GpuAttentionOfCudnn, IsUsedWhereItIsThereAndMissedByNobody) {
  using testing::AllOf, testing::Contains, testing::HasSubstr, testing::Not;
  Job cpu(GetParam(), /*isGpu=*/false, directory / "tokens.bin");
  std::vector<double> want = cpu.train(0, Steps);
  auto isSaid = [](const char *direction, const char *what) {
    return Contains(
        AllOf(HasSubstr(std::string("dtc_cuda_attention_") + direction + "$bf16_8_causal_"), HasSubstr(what)));
  };
  Job with(GetParam(), /*isGpu=*/true, directory / "tokens.bin");
  expectClose(with.train(0, Steps), want);
  expectClose({with.evaluate()}, {cpu.evaluate()});
  std::vector<std::string> notes = with.takeNotes();
  for (const char *direction : {"forward", "backward"}) {
    EXPECT_THAT(notes, isSaid(direction, "is cuDNN's"));
    EXPECT_THAT(notes, Not(isSaid(direction, "the program's own")));
  }
  std::vector<std::vector<double>> own;
  for (auto [setting, words] : {std::pair("refuses", "is the program's own: cuDNN has no kernels for it"),
                                std::pair("fails", "is the program's own: cannot launch"),
                                std::pair("version=91500", "attention runs in the program's own kernels: ")}) {
    Variable variable("DTC_STAND_IN_CUDNN", setting);
    Job without(GetParam(), /*isGpu=*/true, directory / "tokens.bin");
    own.push_back(without.train(0, Steps));
    EXPECT_THAT(without.takeNotes(), AllOf(Contains(HasSubstr(words)), Not(Contains(HasSubstr("is cuDNN's")))));
  }
  expectClose(own[0], want);
  EXPECT_EQ(own[1], own[0]);
  EXPECT_EQ(own[2], own[0]);
}

class GpuGraphs : public GpuTraining {};

TEST_P(GpuGraphs, ChangeNothing) {
  Job with(GetParam(), /*isGpu=*/true, directory / "tokens.bin", /*graphs=*/true);
  Job without(GetParam(), /*isGpu=*/true, directory / "tokens.bin", /*graphs=*/false);
  EXPECT_EQ(with.train(0, 5), without.train(0, 5));
  EXPECT_EQ(with.evaluate(), without.evaluate());
}

const Layout layouts[] = {{"one", "dp=1", "ddp", 1},        {"accumulated", "dp=1", "ddp", 2},
                          {"ddp", "dp=2", "ddp", 1},        {"megatron", "tp=2", "megatron", 1},
                          {"sp", "tp=2", "megatron-sp", 1}, {"zero1", "dp=2", "zero1", 2},
                          {"zero3", "dp=2", "zero3", 1},    {"zero3_tp", "dp=2,tp=2", "zero3+megatron", 1},
                          {"pp", "pp=2", "ddp", 4},         {"pp_tp", "pp=2,tp=2", "megatron", 2}};

class GpuPipelines : public GpuTraining {};

TEST_P(GpuPipelines, GiveEachOthersBits) {
  std::vector<std::vector<double>> losses;
  for (const char *timetable : {"naive", "gpipe", "1f1b"}) {
    Case each = GetParam();
    each.timetable = timetable;
    Job gpu(each, /*isGpu=*/true, directory / "tokens.bin");
    losses.push_back(gpu.train(0, Steps));
  }
  EXPECT_EQ(losses[1], losses[0]);
  EXPECT_EQ(losses[2], losses[0]);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char *model : {"gpt-small", "llama-small"})
    for (const Layout &layout : layouts)
      all.push_back({model, layout, "f32", 1e-5});
  for (const char *model : {"gpt-small", "llama-small"}) {
    all.push_back({model, layouts[0], "f32", 1e-5, /*isOdd=*/true});
    all.push_back({model, layouts[1], "bf16", 2e-3});
  }
  all.push_back({"gpt-small", layouts[0], "bf16", 2e-3, /*isOdd=*/true});
  return all;
}

std::string nameOfCase(const testing::TestParamInfo<Case> &info) {
  return std::string(info.param.model, 3) + "_" + info.param.layout.name + "_" + info.param.compute +
         (info.param.isOdd ? "_odd" : "");
}

INSTANTIATE_TEST_SUITE_P(Models, GpuTraining, testing::ValuesIn(cases()), nameOfCase);
INSTANTIATE_TEST_SUITE_P(Models, GpuCheckpoints,
                         testing::Values(Case{"gpt-small", layouts[1], "f32", 1e-5},
                                         Case{"llama-small", layouts[7], "f32", 1e-5},
                                         Case{"gpt-small", layouts[8], "f32", 1e-5}),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Models, GpuPipelines,
                         testing::Values(Case{"gpt-small", layouts[8], "f32", 0},
                                         Case{"llama-small", layouts[8], "bf16", 0}),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Models, GpuAttentionOfCudnn,
                         testing::Values(Case{"gpt-small", layouts[1], "bf16", 2e-3, false, /*mayFuse=*/true},
                                         Case{"llama-small", layouts[0], "bf16", 2e-3, false, /*mayFuse=*/true},
                                         Case{"llama-small", layouts[4], "bf16", 2e-3, false, /*mayFuse=*/true}),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Models, GpuGraphs,
                         testing::Values(Case{"llama-small", layouts[1], "f32", 0},
                                         Case{"gpt-small", layouts[5], "f32", 0},
                                         Case{"gpt-small", layouts[8], "f32", 0},
                                         Case{"llama-small", layouts[1], "bf16", 0, false, /*mayFuse=*/true}),
                         nameOfCase);

} // namespace
} // namespace dtc::test
