// What a target owns, and how a module says which it is for.
#include "passes/lower/KernelDomain.h"
#include "passes/lower/cpu/CpuTarget.h"
#include "runtime/kernels/kernels.h"

#include "mlir/Parser/Parser.h"

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

// A processor's thread has read all that it needs of a row when it stores the row's value; a GPU's threads may not.
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
  EXPECT_EQ(targetOf(kernel).getName(), "x86-64-v3"); // where nothing is said
  setTarget(*module, "x86-64-v4");
  EXPECT_EQ(targetOf(kernel).getName(), "x86-64-v4");
  EXPECT_EQ(targetOf(*module).getName(), "x86-64-v4");
}

// A name that the target knows is a kernel that the runtime has: a program would not start otherwise.
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
