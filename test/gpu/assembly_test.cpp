// Every kernel of the models' programs, at the models' real sizes, is accepted by ptxas and keeps its working values in
// registers. With DTC_LONG_TESTS for every architecture and preset, which takes minutes; then prints the tables of
// bench/gpu_kernels.md.
#include "frontends/Frontend.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Parser/Parser.h"
#include "passes/lower/Targets.h"
#include "passes/lower/cuda/GpuModule.h"
#include "passes/lower/cuda/Ptx.h"
#include "passes/lower/cuda/Ptxas.h"
#include "passes/lower/cuda/library/GpuAttention.h"
#include "passes/lower/cuda/library/GpuLibrary.h"
#include "passes/pipelines/Compile.h"
#include "runtime/abi/kernel.h"
#include "test/long_tests.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>

using namespace mlir;

namespace dtc {
namespace {

std::vector<std::string> architectures() {
  return test::testsMayBeLong() ? std::vector<std::string>{"sm_80", "sm_90", "sm_100"}
                                : std::vector<std::string>{"sm_90"};
}

struct Case {
  const char *model, *compute;
};

struct Preset {
  const char *strategy, *mesh;
};
constexpr Preset presets[] = {{"megatron", "dp=1,tp=2"}, {"zero3", "dp=8"},           {"ddp", "dp=8"},
                              {"zero1", "dp=8"},         {"zero2", "dp=8"},           {"fsdp", "dp=8"},
                              {"hsdp:4", "dp=8"},        {"megatron-sp", "dp=1,tp=2"}};

void PrintTo(const Case &each, std::ostream *out) { *out << each.model << " in " << each.compute; }

class Assembly : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    ptxas = findPtxas();
    if (!ptxas)
      GTEST_SKIP() << "there is no ptxas: name one by DTC_PTXAS, or install the CUDA toolkit, to assemble the kernels";
  }

  /// Of all kernels under a preset; an entry for each architecture.
  std::map<std::string, std::vector<PtxasFigures>> assembleAll(const Preset &preset) {
    DialectRegistry registry;
    registerFrontendDialects(registry);
    MLIRContext context(registry);
    context.loadAllAvailableDialects();
    loadGpuDialects(context);
    std::map<std::string, int64_t> symbols;
    if (GetParam().model == std::string("llama-small")) // as large as in models of a billion parameters
      symbols = {{"vocab", 32000}, {"embed", 2048},  {"layers", 2}, {"kv_heads", 4},
                 {"group", 8},     {"head_dim", 64}, {"mlp", 5632}, {"positions", 1024}};
    Model model = load(std::string(DTC_SOURCE_DIR) + "/examples/" + GetParam().model,
                       {/*batch=*/16, /*sequence=*/1024, /*dropout=*/0.1, symbols}, context);
    CompileOptions options;
    options.what.compute = GetParam().compute;
    options.where.mesh = preset.mesh;
    options.where.strategy = preset.strategy;
    options.target = "cuda:sm_90";
    std::map<std::string, std::vector<PtxasFigures>> figures;
    EXPECT_TRUE(succeeded(runPhases(*model.module, options, Phase::How)));
    OwningOpRef<ModuleOp> whole = ModuleOp::create(model.module->getLoc());
    OpBuilder builder = OpBuilder::atBlockEnd(whole->getBody());
    auto functions = gpu::GPUModuleOp::create(builder, whole->getLoc(), "kernels");
    SmallVector<mlir::dt::KernelOp> kernels(model.module->getOps<mlir::dt::KernelOp>());
    EXPECT_TRUE(succeeded(emitGpuKernels(kernels, functions)));
    FailureOr<GpuCode> code = lowerToNvvm(functions);
    if (failed(code)) {
      ADD_FAILURE() << "the kernels do not lower";
      return figures;
    }
    for (const std::string &architecture : architectures()) {
      std::string error, ptx = makePtx(*code, architecture, error);
      EXPECT_EQ(error, "");
      std::optional<Cubin> cubin = assemble(*ptxas, ptx, architecture, error);
      EXPECT_EQ(error, "");
      if (cubin)
        figures[architecture] = cubin->figures;
    }
    return figures;
  }

  std::optional<std::string> ptxas;
};

TEST_P(Assembly, KeepsEverythingInRegisters) {
  for (const Preset &preset : std::span(presets).first(test::testsMayBeLong() ? std::size(presets) : 2)) {
    auto figures = assembleAll(preset);
    for (auto &[architecture, functions] : figures) {
      EXPECT_GT(functions.size(), 20u) << architecture;
      int registers = 0, shared = 0, spilled = 0;
      for (const PtxasFigures &function : functions) {
        EXPECT_EQ(function.spillBytes, 0)
            << function.function << " for " << architecture << " in " << function.registers << " registers";
        EXPECT_EQ(function.stackBytes, 0) << function.function << " for " << architecture;
        registers = std::max(registers, function.registers);
        shared = std::max(shared, function.sharedBytes);
        spilled += function.spillBytes > 0;
      }
      fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} |\n", GetParam().model, GetParam().compute, preset.strategy,
                 architecture, functions.size(), registers, spilled, shared);
    }
    if (preset.strategy != std::string("ddp"))
      continue;
    for (size_t i = 0; i < figures["sm_90"].size(); ++i)
      fmt::print("| {} {} | {} | {} | {} | {} | {} |\n", GetParam().model, GetParam().compute,
                 figures["sm_90"][i].function, figures["sm_80"][i].registers, figures["sm_90"][i].registers,
                 figures["sm_100"][i].registers, figures["sm_90"][i].sharedBytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, Assembly,
                         testing::Values(Case{"gpt2", "f32"}, Case{"gpt2", "bf16"}, Case{"llama-small", "f32"},
                                         Case{"llama-small", "bf16"}),
                         [](const testing::TestParamInfo<Case> &info) {
                           std::string name = std::string(info.param.model) + "_" + info.param.compute;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// A module of handwritten functions, and ptxas, without which tests are skipped.
class HandWritten : public testing::Test {
protected:
  void SetUp() override {
    ptxas = findPtxas();
    if (!ptxas)
      GTEST_SKIP() << "there is no ptxas";
    loadGpuDialects(context);
    whole = ModuleOp::create(UnknownLoc::get(&context));
    OpBuilder builder = OpBuilder::atBlockEnd(whole->getBody());
    functions = gpu::GPUModuleOp::create(builder, whole->getLoc(), "functions");
  }

  std::optional<std::string> ptxas;
  MLIRContext context;
  OwningOpRef<ModuleOp> whole;
  gpu::GPUModuleOp functions;
};
using AttentionAssembly = HandWritten;
using LibraryAssembly = HandWritten;

/// Attention with the usual heads, forward and backward.
TEST_F(AttentionAssembly, KeepsEverythingInRegisters) {
  for (int64_t width : {64, 128})
    for (int64_t element : {dtc_f32, dtc_bf16})
      for (bool dropout : {false, true})
        for (bool backward : {false, true})
          addGpuAttention({backward, element, width, /*causal=*/true, dropout}, functions);
  for (bool backward : {false, true})
    addGpuAttention({backward, dtc_f16, /*width=*/64, /*causal=*/true, /*dropout=*/false}, functions);
  FailureOr<GpuCode> code = lowerToNvvm(functions);
  ASSERT_TRUE(succeeded(code));
  std::map<std::string, std::map<std::string, PtxasFigures>> figures;
  for (const std::string &architecture : architectures()) {
    std::string error, ptx = makePtx(*code, architecture, error);
    for (const char *type : {"bf16.bf16", "f16.f16"})
      EXPECT_THAT(ptx, testing::HasSubstr(std::string("mma.sync.aligned.m16n8k16.row.col.f32.") + type + ".f32"));
    for (const char *instruction :
         {"ex2.approx.ftz.f32", "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
          "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "cp.async.cg.shared.global", "cp.async.wait_all"})
      EXPECT_THAT(ptx, testing::HasSubstr(instruction));
    std::optional<Cubin> cubin = assemble(*ptxas, ptx, architecture, error);
    ASSERT_EQ(error, "");
    for (const PtxasFigures &function : cubin->figures) {
      EXPECT_EQ(function.spillBytes, 0) << function.function << " for " << architecture;
      EXPECT_EQ(function.stackBytes, 0) << function.function << " for " << architecture;
      figures[function.function][architecture] = function;
    }
  }
  EXPECT_EQ(figures.size(), 36u);
  for (auto &[name, by] : figures)
    fmt::print("| {} | {} | {} | {} | {} |\n", name, by["sm_80"].registers, by["sm_90"].registers,
               by["sm_100"].registers, by["sm_90"].sharedBytes);
}

TEST_F(LibraryAssembly, KeepsEverythingInRegisters) {
  addGpuLibrary(functions);
  FailureOr<GpuCode> code = lowerToNvvm(functions);
  ASSERT_TRUE(succeeded(code));
  for (const std::string &architecture : architectures()) {
    std::string error, ptx = makePtx(*code, architecture, error);
    std::optional<Cubin> cubin = assemble(*ptxas, ptx, architecture, error);
    ASSERT_EQ(error, "");
    for (const PtxasFigures &function : cubin->figures) {
      EXPECT_EQ(function.spillBytes, 0) << function.function << " for " << architecture;
      EXPECT_EQ(function.stackBytes, 0) << function.function << " for " << architecture;
      fmt::print("| {} | {} | {} | {} |\n", function.function, architecture, function.registers, function.sharedBytes);
    }
  }
}

TEST(CudaTarget, MakesTheSameCodeEachTime) {
  MLIRContext context;
  context.loadDialect<mlir::dt::DTDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
    dt.kernel @twice(%x: tensor<64xf32>) -> tensor<64xf32> {
      %y = dt.add %x, %x : tensor<64xf32>
      dt.yield %y : tensor<64xf32>
    }
    dt.kernel @alike(%x: tensor<7xf32>) -> tensor<7xf32> {
      %y = dt.add %x, %x : tensor<7xf32>
      dt.yield %y : tensor<7xf32>
    })",
                                                             &context);
  ASSERT_TRUE(module);
  std::string why;
  const Target *target = findTarget("cuda:sm_80,sm_90", why);
  ASSERT_NE(target, nullptr) << why;
  SmallVector<mlir::dt::KernelOp> kernels(module->getOps<mlir::dt::KernelOp>());
  FailureOr<std::future<TargetCode>> first = target->startCompiling(kernels);
  FailureOr<std::future<TargetCode>> second = target->startCompiling(kernels);
  ASSERT_TRUE(succeeded(first) && succeeded(second));
  TargetCode code = first->get(), again = second->get();
  EXPECT_EQ(code.error, "");
  EXPECT_EQ(code.sharedFunctions.lookup("alike"), "twice");
  std::vector<std::string> names, expected;
  for (const char *architecture : {"sm_80", "sm_90"}) {
    expected.push_back(std::string("ptx.") + architecture);
    if (findPtxas())
      expected.push_back(std::string("cubin.") + architecture);
  }
  ASSERT_EQ(code.sections.size(), again.sections.size());
  for (size_t i = 0; i < code.sections.size(); ++i) {
    names.push_back(code.sections[i].name);
    EXPECT_EQ(code.sections[i].bytes, again.sections[i].bytes) << names.back();
  }
  EXPECT_EQ(names, expected);
  EXPECT_THAT(code.sections.front().bytes, testing::HasSubstr(".visible .entry twice("));
}

TEST(PtxasFigures, AreReadFromItsWords) {
  std::vector<PtxasFigures> figures = parsePtxasFigures(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'sum$1' for 'sm_90'\n"
      "ptxas info    : Function properties for sum$1\n"
      "    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 1 barriers, 16 bytes cumulative stack size, 64 bytes smem\n"
      "ptxas info    : Compiling entry function 'add' for 'sm_90'\n"
      "ptxas info    : Function properties for add\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 14 registers, used 0 barriers\n");
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].function, "sum$1");
  EXPECT_EQ(figures[0].registers, 32);
  EXPECT_EQ(figures[0].spillBytes, 20);
  EXPECT_EQ(figures[0].stackBytes, 16);
  EXPECT_EQ(figures[0].sharedBytes, 64);
  EXPECT_EQ(figures[1].registers, 14);
  EXPECT_EQ(figures[1].spillBytes, 0);
}

TEST(Ptxas, SaysWhatItRefuses) {
  std::optional<std::string> ptxas = findPtxas();
  if (!ptxas)
    GTEST_SKIP() << "there is no ptxas";
  std::string error;
  EXPECT_FALSE(assemble(*ptxas, ".version 7.0\n.target sm_80\n.address_size 64\nnonsense\n", "sm_80", error));
  EXPECT_THAT(error, testing::AllOf(testing::HasSubstr("-arch=sm_80 ended with"), testing::HasSubstr("nonsense")));
}

} // namespace
} // namespace dtc
