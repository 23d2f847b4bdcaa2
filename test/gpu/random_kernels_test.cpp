// Random kernels of every kind on the stand-in for a GPU (machine.h): shapes with every kind of tail, in place and not,
// blocks and threads in either order, random sites. What each stores must be what it means, see
// tools/verify/KernelRun.h.
#include "passes/lower/cuda/GpuModule.h"
#include "passes/lower/cuda/Ptx.h"
#include "passes/lower/cuda/kernels/GpuShape.h"
#include "passes/lower/kernels/KernelPlan.h"
#include "test/gpu/kernels.h"
#include "test/tools/verify/random_kernels.h"

#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

using namespace mlir;

namespace dtc::test {
namespace {

struct Sizes {
  int copies;
  int64_t rows, sixteens;
};

/// Rows for a part of a warp, rows that a block holds and rows that a block reads again; columns and sums of everything
/// by one block and by several.
constexpr Sizes sizes[] = {{4, 20, 3}, {6, 20, 14}, {4, 4, 200}, {3, 200, 6}, {2, 40, 60}, {1, 2, 2400}};

class RandomGpuKernels : public testing::Test {
protected:
  OwningOpRef<ModuleOp> parse(const Sizes &size) {
    text = verify::makeRandomKernels(random, size.copies, size.rows, size.sixteens).text;
    return parseSourceString<ModuleOp>(text, &context);
  }
  void noteShape(dt::KernelOp kernel) {
    std::string why;
    GpuShape shape = gpuShapeOf(*planKernel(kernel, why));
    shapes.insert({shape.skeleton, shape.heldVectors > 0, shape.parts > 1});
  }
  /// Twice on the same numbers: forwards and backwards, and at different addresses.
  void runPair(GpuKernels &kernels, dt::KernelOp kernel) {
    FailureOr<KernelInterface> interface = describe(kernel);
    std::vector<int64_t> sites = verify::chooseSites(*interface, random);
    uint64_t stored[2];
    for (bool backwards : {false, true}) {
      std::vector<int> inPlace = verify::chooseInPlace(*interface, random);
      verify::CodeResult result = kernels.run(kernel, inPlace, unsigned(trials / 2), backwards, sites);
      ASSERT_EQ(result.failure, "") << kernel.getName().str() << " of\n" << text;
      stored[backwards] = result.stored;
      ++trials;
    }
    EXPECT_EQ(stored[0], stored[1]) << kernel.getName().str() << " depends on the order of threads or on its place";
  }

  MLIRContext context;
  verify::Random random{11};
  std::string text;
  std::set<std::tuple<GpuSkeleton, bool, bool>> shapes; ///< what is held in registers, what several blocks add up
  int64_t trials = 0;
};

TEST_F(RandomGpuKernels, DoWhatTheyMeanAndNothingElse) {
  context.loadDialect<dt::DTDialect>();
  int64_t compared = 0, unbounded = 0;
  for (const Sizes &size : sizes) {
    OwningOpRef<ModuleOp> module = parse(size);
    ASSERT_TRUE(module);
    GpuKernels kernels(*module);
    for (auto kernel : module->getOps<dt::KernelOp>()) {
      noteShape(kernel);
      for (int pair = 0; pair < 5 && !HasFatalFailure(); ++pair)
        runPair(kernels, kernel);
    }
    compared += kernels.compared;
    unbounded += kernels.unbounded;
  }
  RecordProperty("compared", std::to_string(compared));
  EXPECT_GE(trials, 2000);
  EXPECT_GT(compared, 1000 * trials);
  EXPECT_LT(unbounded, compared / 1000);
  // Elements; Rows that are held and read again; Linear and Columns of one part and of several.
  constexpr size_t all = 1 + 2 + 2 + 2;
  EXPECT_EQ(shapes.size(), all);
}

// The machine rounds as processors do. GPUs have faster instructions with larger errors; kernels may use none of them
// except the one for powers of two, which the machine makes equally wrong.
TEST_F(RandomGpuKernels, ApproximateNothingButPowersOfTwo) {
  context.loadDialect<dt::DTDialect>();
  loadGpuDialects(context);
  OwningOpRef<ModuleOp> module = parse({2, 20, 14}), whole = ModuleOp::create(UnknownLoc::get(&context));
  ASSERT_TRUE(module);
  OpBuilder builder = OpBuilder::atBlockEnd(whole->getBody());
  auto functions = gpu::GPUModuleOp::create(builder, whole->getLoc(), "kernels");
  SmallVector<dt::KernelOp> kernels(module->getOps<dt::KernelOp>());
  ASSERT_TRUE(succeeded(emitGpuKernels(kernels, functions)));
  FailureOr<GpuCode> code = lowerToNvvm(functions);
  ASSERT_TRUE(succeeded(code));
  for (const char *architecture : {"sm_80", "sm_90", "sm_100"}) {
    std::string error, ptx = makePtx(*code, architecture, error);
    ASSERT_EQ(error, "");
    for (const char *exact : {"div.rn.f32", "sqrt.rn.f32", "fma.rn.f32"})
      EXPECT_THAT(ptx, testing::HasSubstr(exact)) << architecture;
    const std::string power = "ex2.approx.ftz.f32";
    for (size_t at; (at = ptx.find(power)) != std::string::npos;)
      ptx.erase(at, power.size());
    for (const char *approximate : {".approx", ".full", ".ftz", "call"})
      EXPECT_THAT(ptx, testing::Not(testing::HasSubstr(approximate))) << architecture;
  }
}

} // namespace
} // namespace dtc::test
