// What kernels promise beyond arithmetic: values that are not finite, random numbers and indices of pieces, shared
// code, scalars, masks in memory, the older vector unit, and what is refused.
#include "runtime/abi/random.h"
#include "test/passes/lower/support.h"

#include "dialect/IR/Ops.h"
#include "passes/lower/kernels/KernelPlan.h"

#include <bit>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

using namespace dtc::test;
using testing::HasSubstr;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double notANumber = std::numeric_limits<double>::quiet_NaN();

/// A kernel over 37 elements, two vectors and a tail, that computes %y of %x.
std::string unary(const std::string &name, const std::string &y) {
  return "dt.kernel @" + name + "(%x: tensor<37xf32>) -> tensor<37xf32> {\n  " + y +
         " : tensor<37xf32>\n  dt.yield %y : tensor<37xf32>\n}\n";
}

const std::string one = "%one = dt.constant dense<1.0> : tensor<37xf32>\n  ";
const std::string functions = unary("exp", "%y = dt.exp %x") + unary("log", "%y = dt.log %x") +
                              unary("tanh", "%y = dt.tanh %x") + unary("erf", "%y = dt.erf %x") +
                              unary("gelu", "%y = dt.gelu %x tanh") +
                              unary("gelu_slope", one + "%y = dt.gelu_grad %one, %x tanh") +
                              unary("exact_gelu_slope", one + "%y = dt.gelu_grad %one, %x") + R"(
  dt.kernel @max(%x: tensor<37xf32>) -> tensor<f32> {
    %y = dt.reduce max %x over [0] : tensor<37xf32> -> tensor<f32>
    dt.yield %y : tensor<f32>
  })";

float resultOf(CompiledKernels &kernels, const char *name, double x) {
  return std::bit_cast<float>(kernels.run(name, [x](unsigned, int64_t) { return x; }).at(0).back());
}

} // namespace

TEST(Functions, KeepToTheirLimits) {
  CompiledKernels kernels(functions);
  for (const char *name : {"exp", "log", "tanh", "erf", "gelu", "gelu_slope", "exact_gelu_slope", "max"})
    EXPECT_TRUE(std::isnan(resultOf(kernels, name, notANumber))) << name;
  EXPECT_EQ(resultOf(kernels, "exp", infinity), INFINITY);
  EXPECT_EQ(resultOf(kernels, "exp", 89), INFINITY);
  EXPECT_EQ(resultOf(kernels, "exp", -infinity), 0);
  EXPECT_EQ(resultOf(kernels, "exp", 0), 1);
  EXPECT_EQ(resultOf(kernels, "log", infinity), INFINITY);
  EXPECT_EQ(resultOf(kernels, "log", 0), -INFINITY);
  EXPECT_TRUE(std::isnan(resultOf(kernels, "log", -1)));
  EXPECT_EQ(resultOf(kernels, "tanh", infinity), 1);
  EXPECT_EQ(resultOf(kernels, "tanh", -infinity), -1);
  EXPECT_NEAR(resultOf(kernels, "erf", -infinity), -1, 2e-7);
  EXPECT_EQ(resultOf(kernels, "max", -infinity), -INFINITY);
  for (const char *slope : {"gelu_slope", "exact_gelu_slope"}) // for large magnitudes it is 1, and 0 from below
    for (double x : {13, 1000, 100000}) {
      EXPECT_NEAR(resultOf(kernels, slope, x), 1, 3e-7) << slope << x;
      EXPECT_NEAR(resultOf(kernels, slope, -x), 0, 3e-7) << slope << x;
    }
}

class FunctionsOf : public testing::TestWithParam<const char *> {};

/// Each vector unit has its own exponential.
INSTANTIATE_TEST_SUITE_P(Targets, FunctionsOf, testing::Values("native", "x86-64-v3"));

TEST_P(FunctionsOf, AreAccurateOverTheirWholeRange) {
  CompiledKernels kernels(functions, GetParam());
  struct Case {
    const char *name;
    double (*exact)(double);
    double low, high, relative, absolute;
  };
  for (auto [name, exact, low, high, relative, absolute] :
       {Case{"exp", std::exp, -87.3, 88.7, 2.4e-7, 0}, Case{"log", std::log, 1e-38, 30, 2.4e-7, 1e-8},
        Case{"tanh", std::tanh, -12, 12, 3e-7, 0}, Case{"erf", std::erf, -6, 6, 4e-7, 0}})
    for (int part = 0; part < 400; ++part) {
      auto fill = [&](unsigned, int64_t i) { return double(float(low + (high - low) * (37 * part + i) / (37 * 400))); };
      std::vector<uint32_t> output = kernels.run(name, fill).at(0);
      for (int64_t i = 0; i < 37; ++i) {
        double want = exact(fill(0, i)), got = std::bit_cast<float>(output[i]);
        ASSERT_LE(std::abs(got - want), relative * std::abs(want) + absolute) << name << " of " << fill(0, i);
      }
    }
}

TEST(Functions, ExponentialOfVectorsKeepsToItsLimits) {
  for (const char *target : {"native", "x86-64-v3"}) {
    CompiledKernels kernels(functions, target);
    // The first lanes: of a whole vector.
    auto first = [&](double x) {
      return std::bit_cast<float>(kernels.run("exp", [x](unsigned, int64_t) { return x; }).at(0).front());
    };
    EXPECT_TRUE(std::isnan(first(notANumber))) << target;
    EXPECT_EQ(first(infinity), INFINITY) << target;
    EXPECT_EQ(first(89), INFINITY) << target;
    for (double large = 88.8; large < 3e38; large *= 1.07)
      EXPECT_EQ(first(large), INFINITY) << target << " " << large;
    EXPECT_EQ(first(-infinity), 0) << target;
    for (double large = 88; large < 3e38; large *= 1.07)
      EXPECT_EQ(first(-large), 0) << target << " " << large;
    EXPECT_EQ(first(-87.4), 0) << target << ": below the normal numbers";
    EXPECT_GT(first(-87.3), 0) << target;
  }
}

/// Short rows, by vectors, and long ones, by groups of vectors; both with a tail.
TEST(Maximum, FindsNanAnywhere) {
  CompiledKernels kernels(R"(
    dt.kernel @short(%x: tensor<2x37xf32>) -> tensor<2xf32> {
      %y = dt.reduce max %x over [1] : tensor<2x37xf32> -> tensor<2xf32>
      dt.yield %y : tensor<2xf32>
    }
    dt.kernel @long(%x: tensor<2x16533xf32>) -> tensor<2xf32> {
      %y = dt.reduce max %x over [1] : tensor<2x16533xf32> -> tensor<2xf32>
      dt.yield %y : tensor<2xf32>
    })");
  for (auto [name, columns, last] : {std::tuple("short", 37, 37), std::tuple("long", 16533, 200)})
    for (int64_t at = columns - last; at < columns; ++at) {
      auto fill = [at](unsigned, int64_t i) { return i == at ? notANumber : double(i); };
      auto result = kernels.run(name, fill)[0];
      EXPECT_TRUE(std::isnan(std::bit_cast<float>(result[0]))) << name << " " << at;
      EXPECT_EQ(std::bit_cast<float>(result[1]), 2 * columns - 1) << name << " " << at;
    }
}

/// Every element counts once, in rows that are summed in groups: other numbers would not be exact.
TEST(Sum, TakesEveryElementOnce) {
  const int64_t columns = 16533;
  for (const char *target : {"native", "x86-64-v3"}) {
    CompiledKernels kernels(R"(
      dt.kernel @sum(%x: tensor<2x16533xf32>) -> tensor<2xf32> {
        %y = dt.reduce sum %x over [1] : tensor<2x16533xf32> -> tensor<2xf32>
        dt.yield %y : tensor<2xf32>
      })",
                            target);
    auto small = [](unsigned, int64_t i) { return double(i % 5); };
    double sums[2] = {};
    for (int64_t i = 0; i < 2 * columns; ++i)
      sums[i / columns] += small(0, i);
    auto result = kernels.run("sum", small)[0];
    EXPECT_EQ(std::bit_cast<float>(result[0]), sums[0]) << target;
    EXPECT_EQ(std::bit_cast<float>(result[1]), sums[1]) << target;
  }
}

TEST(Random, DrawsTheNumbersOfItsPieceOfTheWhole) {
  // A quarter of [4, 6, 40]: samples split two ways, columns two ways; numbers beyond 2^32 carry into the high half.
  CompiledKernels kernels(R"(
    dt.kernel @draw(%key: tensor<4xi32>) -> (tensor<2x6x20xf32>, tensor<2x6x20xi32>) {
      %u = dt.random %key site 7 of [4, 6, 40] sharded <[{"dp"}, {}, {"tp"}]> : tensor<4xi32> -> tensor<2x6x20xf32>
      %i = dt.iota 2 sharded <[{"dp"}, {}, {"tp"}]> : tensor<2x6x20xi32>
      dt.yield %u, %i : tensor<2x6x20xf32>, tensor<2x6x20xi32>
    })");
  ASSERT_TRUE(kernels.good());
  auto interface = dtc::describe(kernels.kernel("draw"));
  ASSERT_TRUE(succeeded(interface));
  const int64_t dp = 1, tp = 1;
  std::vector<int64_t> scalars;
  for (const mlir::dt::LaunchScalar &scalar : interface->scalars) {
    bool isRank = scalar.kind == mlir::dt::LaunchScalar::Kind::RankIndex;
    int64_t index = !isRank || scalar.axes.empty() ? 0 : scalar.axes[0].getAxis() == "dp" ? dp : tp;
    scalars.push_back(isRank ? scalar.integer * index : scalar.integer);
  }
  const int32_t firstSample = 17895696; // * 240 is just below 2^32
  std::vector<int32_t> key{5, 9, firstSample, 0};
  std::vector<float> draws(240);
  std::vector<int32_t> indices(240);
  void *buffers[] = {key.data(), draws.data(), indices.data()};
  kernels.function("draw")(buffers, scalars.data(), 0, interface->grid);
  uint32_t stream = dtc::random::stream(5, 9, 7);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t s = 0; s < 6; ++s)
      for (int64_t c = 0; c < 20; ++c) {
        uint64_t number = ((firstSample + 2 * dp + b) * 6 + s) * 40 + 20 * tp + c;
        EXPECT_EQ(draws[(b * 6 + s) * 20 + c], static_cast<float>(dtc::random::uniform(stream, number)));
        EXPECT_EQ(indices[(b * 6 + s) * 20 + c], 20 * tp + c);
      }
}

/// Every draw reads the whole key, whatever the place of its own.
TEST(Random, WritesNothingOverItsKey) {
  CompiledKernels kernels(R"(
    dt.kernel @draw(%key: tensor<4xi32>) -> tensor<4xf32> {
      %u = dt.random %key site 0 of [4] : tensor<4xi32> -> tensor<4xf32>
      dt.yield %u : tensor<4xf32>
    })");
  ASSERT_TRUE(kernels.good());
  auto interface = dtc::describe(kernels.kernel("draw"));
  ASSERT_TRUE(succeeded(interface));
  EXPECT_TRUE(interface->inPlace[0].empty());
}

TEST(Dropout, MatchesTheInterpreter) {
  CompiledKernels kernels(R"(
    dt.kernel @dropout(%x: tensor<3x5x33xf32>, %residual: tensor<3x5x33xf32>, %key: tensor<4xi32>) -> tensor<3x5x33xf32> {
      %u = dt.random %key site 3 of [3, 5, 33] : tensor<4xi32> -> tensor<3x5x33xf32>
      %rate = dt.constant dense<0.5> : tensor<3x5x33xf32>
      %keep = dt.compare ge %u, %rate : tensor<3x5x33xf32> -> tensor<3x5x33xi1>
      %twice = dt.add %x, %x : tensor<3x5x33xf32>
      %zero = dt.constant dense<0.0> : tensor<3x5x33xf32>
      %dropped = dt.select %keep, %twice, %zero : tensor<3x5x33xi1>, tensor<3x5x33xf32>
      %y = dt.add %dropped, %residual : tensor<3x5x33xf32>
      dt.yield %y : tensor<3x5x33xf32>
    })");
  kernels.expectMatch("dropout");
}

TEST(Scalars, AreKernelsToo) {
  CompiledKernels kernels(R"(
    dt.kernel @clip(%norm: tensor<f32>, %count: tensor<f32>) -> tensor<f32> {
      %one = dt.constant dense<1.0> : tensor<f32>
      %ratio = dt.div %one, %norm : tensor<f32>
      %least = dt.min %ratio, %one : tensor<f32>
      %y = dt.div %least, %count : tensor<f32>
      dt.yield %y : tensor<f32>
    })");
  kernels.expectMatch("clip");
}

TEST(Masks, LieInMemoryAsIntegers) {
  CompiledKernels kernels(R"(
    dt.kernel @masks(%a: tensor<3x19xi1>, %x: tensor<3x19xf32>, %row: tensor<3xf32>) -> (tensor<3x19xi1>, tensor<3x19xf32>) {
      %all = dt.broadcast %row dims [0] : tensor<3xf32> -> tensor<3x19xf32>
      %less = dt.compare lt %x, %all : tensor<3x19xf32> -> tensor<3x19xi1>
      %both = dt.and %a, %less : tensor<3x19xi1>
      %y = dt.convert %both : tensor<3x19xi1> -> tensor<3x19xf32>
      dt.yield %both, %y : tensor<3x19xi1>, tensor<3x19xf32>
    })");
  kernels.expectMatch("masks");
}

TEST(Broadcasts, ReachAnySubsetOfTheDimensions) {
  CompiledKernels kernels(R"(
    dt.kernel @outer(%a: tensor<3xf32>, %b: tensor<4x5xf32>, %c: tensor<3x18xf32>, %square: tensor<18xf32>)
        -> tensor<3x4x5x18xf32> {
      %0 = dt.broadcast %a dims [0] : tensor<3xf32> -> tensor<3x4x5x18xf32>
      %1 = dt.broadcast %b dims [1, 2] : tensor<4x5xf32> -> tensor<3x4x5x18xf32>
      %2 = dt.broadcast %c dims [0, 3] : tensor<3x18xf32> -> tensor<3x4x5x18xf32>
      %e = dt.exp %square : tensor<18xf32>
      %3 = dt.broadcast %e dims [3] : tensor<18xf32> -> tensor<3x4x5x18xf32>
      %4 = dt.mul %0, %1 : tensor<3x4x5x18xf32>
      %5 = dt.add %4, %2 : tensor<3x4x5x18xf32>
      %6 = dt.sub %5, %3 : tensor<3x4x5x18xf32>
      dt.yield %6 : tensor<3x4x5x18xf32>
    }
    dt.kernel @twice(%v: tensor<18xf32>) -> tensor<18x18xf32> {
      %0 = dt.broadcast %v dims [0] : tensor<18xf32> -> tensor<18x18xf32>
      %1 = dt.broadcast %v dims [1] : tensor<18xf32> -> tensor<18x18xf32>
      %2 = dt.mul %0, %1 : tensor<18x18xf32>
      dt.yield %2 : tensor<18x18xf32>
    })");
  kernels.expectMatch("outer");
  kernels.expectMatch("twice");
}

TEST(EqualKernels, ShareOneFunction) {
  // Flat kernels take the number of elements as an argument, kernels over rows the rows by their grid.
  CompiledKernels kernels(R"(
    dt.kernel @small(%x: tensor<3x7xf32>) -> tensor<3x7xf32> {
      %y = dt.silu %x : tensor<3x7xf32>
      dt.yield %y : tensor<3x7xf32>
    }
    dt.kernel @large(%x: tensor<2x5x7x11xf32>) -> tensor<2x5x7x11xf32> {
      %y = dt.silu %x : tensor<2x5x7x11xf32>
      dt.yield %y : tensor<2x5x7x11xf32>
    })");
  EXPECT_EQ(kernels.function("small"), kernels.function("large"));
  kernels.expectMatch("small");
  kernels.expectMatch("large");
}

TEST(Targets, OlderVectorUnitGivesTheSame) {
  CompiledKernels kernels(R"(
    dt.kernel @softmax(%x: tensor<4x43xf32>, %key: tensor<4xi32>) -> tensor<4x43xf32> {
      %u = dt.random %key site 1 of [4, 43] : tensor<4xi32> -> tensor<4x43xf32>
      %a = dt.add %x, %u : tensor<4x43xf32>
      %max = dt.reduce max %a over [1] : tensor<4x43xf32> -> tensor<4xf32>
      %maxAll = dt.broadcast %max dims [0] : tensor<4xf32> -> tensor<4x43xf32>
      %shifted = dt.sub %a, %maxAll : tensor<4x43xf32>
      %e = dt.exp %shifted : tensor<4x43xf32>
      %sum = dt.reduce sum %e over [1] : tensor<4x43xf32> -> tensor<4xf32>
      %sumAll = dt.broadcast %sum dims [0] : tensor<4xf32> -> tensor<4x43xf32>
      %y = dt.div %e, %sumAll : tensor<4x43xf32>
      dt.yield %y : tensor<4x43xf32>
    }
    dt.kernel @columns(%x: tensor<19x43xf32>) -> tensor<43xf32> {
      %y = dt.reduce sum %x over [0] : tensor<19x43xf32> -> tensor<43xf32>
      dt.yield %y : tensor<43xf32>
    })",
                          "x86-64-v3");
  kernels.expectMatch("softmax");
  kernels.expectMatch("columns", 5e-6);
}

TEST(Targets, UnknownNamesAreRefused) {
  std::string why;
  EXPECT_TRUE(failed(dtc::resolveTarget("pentium", why)));
  EXPECT_THAT(why, HasSubstr("use native, x86-64-v3, x86-64-v4 or cuda:sm_90"));
}

TEST(InPlace, AnInputThatALaterSweepReadsIsKept) {
  CompiledKernels kernels(R"(
    dt.kernel @k(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
      %twice = dt.add %x, %x : tensor<4x8xf32>
      %max = dt.reduce max %x over [1] : tensor<4x8xf32> -> tensor<4xf32>
      %wide = dt.broadcast %max dims [0] : tensor<4xf32> -> tensor<4x8xf32>
      %rest = dt.sub %x, %wide : tensor<4x8xf32>
      dt.yield %twice, %rest : tensor<4x8xf32>, tensor<4x8xf32>
    })");
  auto interface = dtc::describe(kernels.kernel("k"));
  ASSERT_TRUE(succeeded(interface));
  // The doubled row is stored in the sweep that finds the maximum, the rest in the next, which reads the row again.
  EXPECT_TRUE(interface->inPlace[0].empty());
  EXPECT_EQ(interface->inPlace[1], llvm::SmallVector<unsigned>{0});
}

TEST(Sharing, IsRefusedWithTheReason) {
  CompiledKernels kernels(R"(
    dt.kernel @both(%x: tensor<6x20xf32>) -> (tensor<6xf32>, tensor<20xf32>) {
      %rows = dt.reduce sum %x over [1] : tensor<6x20xf32> -> tensor<6xf32>
      %columns = dt.reduce sum %x over [0] : tensor<6x20xf32> -> tensor<20xf32>
      dt.yield %rows, %columns : tensor<6xf32>, tensor<20xf32>
    })");
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<mlir::Value> outputs;
  mlir::dt::KernelOp kernel = kernels.kernel("both");
  for (mlir::Operation &op : kernel.getBody().front().without_terminator()) {
    ops.push_back(&op);
    outputs.push_back(op.getResult(0));
  }
  std::string why;
  EXPECT_FALSE(dtc::canShareKernel(ops, outputs, &why));
  EXPECT_THAT(why, HasSubstr("reductions are over different dimensions"));
  EXPECT_TRUE(dtc::canShareKernel(ops[0], outputs[0]));
  EXPECT_TRUE(dtc::canShareKernel(ops[1], outputs[1]));
}
