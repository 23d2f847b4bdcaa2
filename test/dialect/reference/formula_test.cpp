// The meaning of applying a formula, and its work.
#include "dialect/cost/Cost.h"
#include "test/dialect/reference/support.h"

namespace mlir::dt::test {
namespace {

class Formula : public ReferenceTest {};

constexpr const char *stepAndSum = R"(
  dt.formula @step_and_sum(%p: tensor<f32>, %g: tensor<f32>, %rate: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    %half = dt.constant dense<0.5> : tensor<f32>
    %halved = dt.mul %g, %half : tensor<f32>
    %step = dt.mul %halved, %rate : tensor<f32>
    %new = dt.sub %p, %step : tensor<f32>
    %sum = dt.add %p, %g : tensor<f32>
    dt.yield %new, %sum : tensor<f32>, tensor<f32>
  }
  func.func @f(%p: tensor<2x2xf32>, %g: tensor<2x2xf32>, %rate: tensor<f32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
    %0:2 = dt.apply @step_and_sum(%p, %g, %rate)
      : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<f32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
    return %0#0, %0#1 : tensor<2x2xf32>, tensor<2x2xf32>
  })";

TEST_F(Formula, IsComputedAtEveryIndexWithNumbersForAll) {
  HostTensors results =
      run(stepAndSum, {tensor({2, 2}, {1, 2, 3, 4}), tensor({2, 2}, {10, 20, 30, 40}), tensor({}, {0.5})});
  EXPECT_THAT(*results[0].elements, ElementsAre(1 - 2.5, 2 - 5, 3 - 7.5, 4 - 10));
  EXPECT_THAT(*results[1].elements, ElementsAre(11, 22, 33, 44));
  EXPECT_THAT(results[0].shape, ElementsAre(2, 2));
}

TEST_F(Formula, RoundsEachStepAsItsOperationsAloneWould) {
  // 1 + 2^-24 is not an f32: it rounds to 1, so that nothing is left after the subtraction.
  constexpr const char *cancels = R"(
    dt.formula @cancels(%x: tensor<f32>, %small: tensor<f32>) -> tensor<f32> {
      %sum = dt.add %x, %small : tensor<f32>
      %rest = dt.sub %sum, %x : tensor<f32>
      dt.yield %rest : tensor<f32>
    }
    func.func @f(%x: tensor<1xf32>, %small: tensor<f32>) -> tensor<1xf32> {
      %0 = dt.apply @cancels(%x, %small) : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
      return %0 : tensor<1xf32>
    })";
  std::vector<HostTensor> arguments{tensor({1}, {1}), tensor({}, {0x1p-24})};
  EXPECT_EQ(run(cancels, arguments, {.f64 = false})[0][0], 0);
  EXPECT_EQ(run(cancels, arguments)[0][0], 0x1p-24);
}

TEST_F(Formula, WorkIsThatOfItsOperationsAtEveryIndex) { EXPECT_EQ(*countFlops(parse(stepAndSum)), 4 * (2 * 2)); }

TEST_F(Formula, SplitsAsItsTensorsDoAndNotItsNumbers) {
  parse(stepAndSum);
  FactorRule rule;
  module->walk([&](ApplyOp apply) { rule = apply.getFactorRule(); });
  EXPECT_EQ(rule.factors.size(), 2u);
  EXPECT_EQ(rule.operands[0], rule.operands[1]);
  EXPECT_EQ(rule.operands[0], rule.results[0]);
  EXPECT_EQ(rule.results[0], rule.results[1]);
  EXPECT_TRUE(rule.operands[2].empty());
}

} // namespace
} // namespace mlir::dt::test
