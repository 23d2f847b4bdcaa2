// What a target determines, and how a module states which one it is for.
#include "passes/lower/Targets.h"
#include "passes/lower/cpu/CpuTarget.h"
#include "passes/lower/kernels/KernelInterface.h"
#include "runtime/kernels/cpu/kernels.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace dtc;
using namespace mlir;

namespace {

const Target &require(const char *name) {
  std::string why;
  const Target *target = findTarget(name, why);
  EXPECT_NE(target, nullptr) << why;
  return *target;
}

} // namespace

TEST(Target, IsFoundByItsName) {
  EXPECT_EQ(require("x86-64-v3").getName(), "x86-64-v3");
  EXPECT_EQ(require("x86-64-v4").getName(), "x86-64-v4");
  EXPECT_EQ(&require("x86-64-v3"), &require("x86-64-v3"));
  EXPECT_GT(require("x86-64-v4").getFeatures().size(), require("x86-64-v3").getFeatures().size());
  std::string why;
  EXPECT_EQ(findTarget("pentium", why), nullptr);
  EXPECT_THAT(why, testing::HasSubstr("unknown target 'pentium'"));
}

TEST(Target, CudaIsNamedWithItsArchitectures) {
  EXPECT_EQ(require("cuda:sm_90").getName(), "cuda:sm_90");
  EXPECT_THAT(require("cuda:sm_80,sm_100").getFeatures(), testing::ElementsAre("sm_80", "sm_100"));
  for (auto [name, words] : {std::pair("cuda:sm_70", "unknown architecture 'sm_70'; GPUs have sm_80, sm_90, sm_100"),
                             std::pair("cuda:", "unknown architecture ''"),
                             std::pair("cuda:sm_90,sm_90", "architecture 'sm_90' is named twice")}) {
    std::string why;
    EXPECT_EQ(findTarget(name, why), nullptr) << name;
    EXPECT_THAT(why, testing::HasSubstr(words));
  }
  EXPECT_EQ(require("cuda:sm_90").findLibraryKernel("gemm"), "dtc_cuda_gemm");
}

// A processor's thread has read all that it needs of a row when it stores the row's value; a GPU's threads may not
// have.
TEST(Target, ThreadsThatShareARowDoNotOverwriteItsValue) {
  MLIRContext context;
  context.loadDialect<dt::DTDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
    dt.kernel @scale(%x: tensor<8x64xf32>, %row: tensor<8xf32>) -> (tensor<8x64xf32>, tensor<8xf32>) {
      %rows = dt.broadcast %row dims [0] : tensor<8xf32> -> tensor<8x64xf32>
      %y = dt.mul %x, %rows : tensor<8x64xf32>
      %next = dt.add %row, %row : tensor<8xf32>
      dt.yield %y, %next : tensor<8x64xf32>, tensor<8xf32>
    })",
                                                             &context);
  ASSERT_TRUE(module);
  auto kernel = *module->getOps<dt::KernelOp>().begin();
  for (auto [target, count] : {std::pair("x86-64-v3", 1), std::pair("cuda:sm_90", 0)}) {
    setTarget(*module, target);
    FailureOr<KernelInterface> interface = describe(kernel);
    ASSERT_TRUE(succeeded(interface));
    EXPECT_EQ(interface->inPlace[0].size(), 1u) << target;
    EXPECT_EQ(interface->inPlace[1].size(), size_t(count)) << target;
  }
}

TEST(Target, IsTheOneThatTheModuleNames) {
  MLIRContext context;
  context.loadDialect<dt::DTDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
    dt.kernel @twice(%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = dt.add %x, %x : tensor<8xf32>
      dt.yield %y : tensor<8xf32>
    })",
                                                             &context);
  ASSERT_TRUE(module);
  auto kernel = *module->getOps<dt::KernelOp>().begin();
  EXPECT_EQ(targetOf(kernel).getName(), "x86-64-v3"); // by default
  setTarget(*module, "x86-64-v4");
  EXPECT_EQ(targetOf(kernel).getName(), "x86-64-v4");
  EXPECT_EQ(targetOf(*module).getName(), "x86-64-v4");
}

// GPUs get code for a call, whose launches the symbol tells apart; heads must fit into a block's registers.
TEST(Target, MakesAttentionForACall) {
  dt::LibraryCall call;
  call.kernel = "attention_backward";
  for (int64_t i = 0; i < 45; ++i)
    call.scalars.push_back(i == 20 || i == 22 ? dt::LaunchScalar::of(0.5) : dt::LaunchScalar::of(int64_t(0)));
  for (auto [scalar, value] : {std::pair(0, 2), {1, 100}, {2, 70}, {3, 4}, {4, 3}, {5, 64}, {21, 1}})
    call.scalars[scalar].integer = value;
  std::string why;
  std::optional<LibraryKernel> kernel = require("cuda:sm_90").findLibraryKernel(call, why);
  ASSERT_TRUE(kernel) << why;
  EXPECT_EQ(kernel->symbol, "dtc_cuda_attention_backward$f32_64_causal_dropout_2x100x70x4x3");
  ASSERT_EQ(kernel->passes.size(), 3u);
  EXPECT_EQ(kernel->passes[1].function, "dtc_cuda_attention_d_q$f32_64_causal_dropout");
  EXPECT_EQ(kernel->passes[1].blocks, 2 * 4 * 3 * 2); // heads, and tiles of 64 queries
  EXPECT_EQ(kernel->passes[2].blocks, 2 * 4 * 2);     // heads of keys, and tiles of 64 keys
  EXPECT_EQ(kernel->scratchBytes, 2 * 4 * 3 * 100 * 4);
  call.scalars[5].integer = 512;
  EXPECT_FALSE(require("cuda:sm_90").findLibraryKernel(call, why));
  EXPECT_EQ(why, "for heads of 512 elements, only of 256 and less");
  kernel = require("x86-64-v3").findLibraryKernel(call, why);
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->symbol, "dtc_attention_backward");
  EXPECT_TRUE(kernel->passes.empty());
}

/// The workspace of cuDNN's gradient is planned for the GPUs on which it is used, and only where it may be used.
TEST(Target, GradientsOfAttentionHaveScratchForCudnn) {
  auto scratchOf = [](const char *target, auto change) {
    dt::LibraryCall call;
    call.kernel = "attention_backward";
    for (int64_t i = 0; i < 45; ++i)
      call.scalars.push_back(i == 20 || i == 22 ? dt::LaunchScalar::of(0.0) : dt::LaunchScalar::of(int64_t(0)));
    for (auto [scalar, value] : {std::pair(0, 2), {1, 100}, {2, 100}, {3, 4}, {4, 3}, {5, 64}, {21, 2}, {30, 2}})
      call.scalars[scalar].integer = value;
    change(call);
    std::string why;
    std::optional<LibraryKernel> kernel = require(target).findLibraryKernel(call, why);
    return kernel ? kernel->scratchBytes : -1;
  };
  auto nothing = [](dt::LibraryCall &) {};
  const int64_t own = 2 * 4 * 3 * 100 * 4;
  const int64_t grouped = 2 * 4 * 3 * (128 * 128 + 2 * 100 * 64) * 2 + own + 4096;
  EXPECT_EQ(scratchOf("cuda:sm_90", nothing), grouped);
  EXPECT_EQ(scratchOf("cuda:sm_80,sm_100", nothing), grouped);
  EXPECT_EQ(scratchOf("cuda:sm_100", nothing), own);
  EXPECT_EQ(scratchOf("cuda:sm_90", [](dt::LibraryCall &call) { call.scalars[4].integer = 1; }),
            2 * 4 * (128 * 128 * 2 + 100 * 4) + 4096);
  EXPECT_EQ(scratchOf("cuda:sm_90", [](dt::LibraryCall &call) { call.scalars[21].integer = 1; }), own)
      << "positions may be any";
  EXPECT_EQ(scratchOf("cuda:sm_90", [](dt::LibraryCall &call) { call.scalars[22].real = 0.1; }), own) << "dropout";
  EXPECT_EQ(scratchOf("cuda:sm_90", [](dt::LibraryCall &call) { call.scalars[30].integer = 0; }), own) << "f32";
  EXPECT_EQ(scratchOf("cuda:sm_90", [](dt::LibraryCall &call) { call.scalars[5].integer = 136; }), own) << "wide heads";
  auto ofLength = [](int64_t length) {
    return [=](dt::LibraryCall &call) { call.scalars[1].integer = call.scalars[2].integer = length; };
  };
  const int64_t length = 8192;
  EXPECT_EQ(scratchOf("cuda:sm_90", ofLength(8192)), 2 * 3 * (length * (length + 2 * 64) * 2 + length * 4) + 4096)
      << "a GiB holds two of four groups";
  EXPECT_EQ(scratchOf("cuda:sm_90", ofLength(16384)), 2 * 4 * 3 * 2 * length * 4) << "a group takes more than a GiB";
}

/// The "causal" scalar of attention and of its gradient, with positions that `text` makes.
static int64_t causalOn(const std::string &text, const std::string &queries, const std::string &keys,
                        bool causal = true) {
  MLIRContext context;
  context.loadDialect<dt::DTDialect, func::FuncDialect>();
  std::string source = R"(
    dt.kernel @indices() -> tensor<8xi32> {
      %i = dt.iota 0 : tensor<8xi32>
      dt.yield %i : tensor<8xi32>
    }
    dt.kernel @several() -> (tensor<8xi32>, tensor<8xi32>) {
      %i = dt.iota 0 : tensor<8xi32>
      %two = dt.add %i, %i : tensor<8xi32>
      dt.yield %two, %i : tensor<8xi32>, tensor<8xi32>
    }
    func.func @attend(%x: Q, %y: KV, %key: tensor<4xi32>, %any: P, %lse: L) {
      TEXT
      %out, %l = dt.attention %x, %y, %y, QUERIES, KEYS, %key ATTRIBUTES : (Q, KV, KV, P, P, tensor<4xi32>) -> (Q, L)
      %dq, %dk, %dv = dt.attention_grad %x, %y, %y, QUERIES, KEYS, %key, %out, %lse, %x ATTRIBUTES
        : (Q, KV, KV, P, P, tensor<4xi32>, Q, L, Q) -> (Q, KV, KV)
      return
    })";
  std::pair<const char *, std::string> parts[] = {
      {"TEXT", text},
      {"QUERIES", queries},
      {"KEYS", keys},
      {"ATTRIBUTES", std::string("{causal = ") + (causal ? "true" : "false") +
                         ", dropout = 0.0 : f64, global_shape = array<i64: 2, 1, 1, 8>, scale = 1.0 : f64, "
                         "site = 0 : i64}"},
      {"KV", "tensor<2x8x1x4xbf16>"},
      {"Q", "tensor<2x8x1x1x4xbf16>"},
      {"P", "tensor<8xi32>"},
      {"L", "tensor<2x1x1x8xf32>"}};
  for (auto &[name, what] : parts)
    for (size_t at = 0; (at = source.find(name, at)) != std::string::npos; at += what.size())
      source.replace(at, std::strlen(name), what);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(source, &context);
  if (!module)
    return -1;
  SmallVector<int64_t> found;
  module->walk([&](dt::LibraryOpInterface op) {
    SmallVector<dt::StridedLayout> layouts;
    for (auto values : {ValueRange(op->getOperands()), ValueRange(op->getResults())})
      for (Value value : values)
        layouts.push_back(dt::StridedLayout::dense(cast<RankedTensorType>(value.getType()).getShape()));
    if (FailureOr<dt::LibraryCall> call = op.getLibraryCall(layouts, {}); succeeded(call) && call->scalars.size() > 21)
      found.push_back(call->scalars[21].integer);
  });
  return found.size() == 2 && found[0] == found[1] ? found[0] : -2;
}

// Masks by index equal masks by position only where both sides have one row of indices: positions of several pieces,
// from elsewhere, or that rise by more than one might be anything.
TEST(Target, AttentionIsCausalByIndexOnlyWherePositionsAreIndices) {
  EXPECT_EQ(causalOn("%i = dt.iota 0 : P", "%i", "%i"), 2);
  EXPECT_EQ(causalOn("%i = dt.iota 0 : P", "%i", "%i", /*causal=*/false), 0);
  EXPECT_EQ(causalOn("%i = dt.launch @indices() : () -> P", "%i", "%i"), 2);
  EXPECT_EQ(causalOn("%b = dt.launch @indices() : () -> P\n%i = dt.barrier %b : P", "%i", "%i"), 2);
  EXPECT_EQ(causalOn("%i:2 = dt.launch @several() : () -> (P, P)", "%i#1", "%i#1"), 2);
  EXPECT_EQ(causalOn("%i:2 = dt.launch @several() : () -> (P, P)", "%i#0", "%i#0"), 1);
  EXPECT_EQ(causalOn("%i:2 = dt.launch @several() : () -> (P, P)", "%i#1", "%i#0"), 1);
  EXPECT_EQ(causalOn("%i = dt.iota 0 : P\n%j = dt.iota 0 : P", "%i", "%j"), 1);
  EXPECT_EQ(causalOn("", "%any", "%any"), 1);
  EXPECT_EQ(causalOn("%i = dt.iota 0 : P", "%i", "%any"), 1);
  EXPECT_EQ(causalOn("%i = dt.iota 0 : P", "%any", "%i"), 1);
  EXPECT_EQ(causalOn("%i = dt.iota 0 : P\n%s = dt.add %i, %any : P", "%s", "%s"), 1);
}

// The runtime has a kernel for each name that the target knows: otherwise a program would not start.
TEST(Target, LibraryKernelsAreTheRuntimes) {
  const Target &target = require("x86-64-v3");
  for (const char *name :
       {"gemm", "attention_forward", "attention_backward", "rotary", "gather", "scatter_add", "copy", "fill"}) {
    std::optional<std::string> symbol = target.findLibraryKernel(name);
    ASSERT_TRUE(symbol) << name;
    EXPECT_NE(kernels::find(*symbol), nullptr) << name;
    EXPECT_TRUE(symbol->ends_with(name)) << name;
  }
  EXPECT_FALSE(target.findLibraryKernel("dtc_gemm"));
  EXPECT_FALSE(target.findLibraryKernel(""));
}
