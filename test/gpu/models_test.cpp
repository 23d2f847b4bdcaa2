// Every kernel in the models' programs, with sizes that do not divide evenly.
#include "test/gpu/kernels.h"

#include "frontends/Frontend.h"
#include "mlir/IR/DialectRegistry.h"
#include "passes/pipelines/Compile.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace dtc::test {
namespace {

struct Case {
  const char *name, *model, *mesh, *strategy, *compute;
};

void PrintTo(const Case &each, std::ostream *out) { *out << each.name; }

class Models : public testing::TestWithParam<Case> {};

std::map<std::string, int64_t> oddSymbols(const std::string &model) {
  if (model == "llama-small")
    return {{"vocab", 37}, {"embed", 20},    {"layers", 2}, {"kv_heads", 2},
            {"group", 1},  {"head_dim", 10}, {"mlp", 26},   {"positions", 7}};
  return {{"vocab", 37}, {"embed", 20}, {"layers", 2}, {"heads", 2}, {"head_dim", 10}, {"mlp", 26}, {"positions", 7}};
}

TEST_P(Models, StoreWhatTheyMean) {
  const Case &each = GetParam();
  DialectRegistry registry;
  registerFrontendDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  Model model = load(std::string(DTC_SOURCE_DIR) + "/examples/" + each.model,
                     {/*batch=*/6, /*sequence=*/7, /*dropout=*/0.1, oddSymbols(each.model)}, context);
  CompileOptions options;
  options.what.clipNorm = 0.5;
  options.what.compute = each.compute;
  options.where.mesh = each.mesh;
  options.where.strategy = each.strategy;
  options.target = "cuda:sm_90";
  ASSERT_TRUE(succeeded(runPhases(*model.module, options, Phase::How)));
  GpuKernels kernels(*model.module);
  int count = 0;
  for (auto kernel : model.module->getOps<dt::KernelOp>()) {
    kernels.expectMatch(kernel);
    ++count;
  }
  EXPECT_GT(count, 10);
  EXPECT_GT(kernels.compared, 100000);
  EXPECT_EQ(kernels.unbounded, 0);
}

INSTANTIATE_TEST_SUITE_P(Gpu, Models,
                         testing::Values(Case{"gpt_ddp", "gpt-small", "dp=2", "ddp", "f32"},
                                         Case{"gpt_megatron", "gpt-small", "dp=1,tp=2", "megatron", "f32"},
                                         Case{"gpt_zero1", "gpt-small", "dp=2", "zero1", "f32"},
                                         Case{"gpt_zero3", "gpt-small", "dp=2", "zero3", "f32"},
                                         Case{"gpt_ddp_bf16", "gpt-small", "dp=2", "ddp", "bf16"},
                                         Case{"gpt_megatron_bf16", "gpt-small", "dp=1,tp=2", "megatron", "bf16"},
                                         Case{"gpt_zero3_bf16", "gpt-small", "dp=2", "zero3", "bf16"},
                                         Case{"gpt_zero1_bf16", "gpt-small", "dp=2", "zero1", "bf16"},
                                         Case{"llama_zero1", "llama-small", "dp=2", "zero1", "f32"},
                                         Case{"llama_zero3_bf16", "llama-small", "dp=2", "zero3", "bf16"},
                                         Case{"gpt_megatron_sp_f16", "gpt-small", "dp=1,tp=2", "megatron-sp", "f16"},
                                         Case{"llama_ddp", "llama-small", "dp=2", "ddp", "f32"},
                                         Case{"llama_megatron", "llama-small", "dp=1,tp=2", "megatron", "f32"},
                                         Case{"llama_zero1_bf16", "llama-small", "dp=2", "zero1", "bf16"},
                                         Case{"llama_zero3", "llama-small", "dp=2", "zero3", "f32"},
                                         Case{"llama_ddp_bf16", "llama-small", "dp=2", "ddp", "bf16"},
                                         Case{"llama_megatron_bf16", "llama-small", "dp=1,tp=2", "megatron", "bf16"}),
                         [](const testing::TestParamInfo<Case> &info) { return std::string(info.param.name); });

} // namespace
} // namespace dtc::test
