// The reference semantics of single operations whose meaning is not obvious from one line.
#include "runtime/abi/random.h"
#include "test/dialect/reference/support.h"

namespace mlir::dt::test {
namespace {

using testing::DoubleNear;
using testing::Pointwise;

class Operations : public ReferenceTest {};

TEST_F(Operations, ContractPermutesBatchesAndSums) {
  HostTensor lhs = randomTensor({2, 3, 5}, 1), rhs = randomTensor({4, 5, 2}, 2);
  HostTensor result = run(R"(func.func @f(%a: tensor<2x3x5xf32>, %b: tensor<4x5x2xf32>) -> tensor<4x2x3xf32> {
    %0 = dt.contract "bsd,hdb->hbs" %a, %b : tensor<2x3x5xf32>, tensor<4x5x2xf32> -> tensor<4x2x3xf32>
    return %0 : tensor<4x2x3xf32> })",
                          {lhs, rhs})[0];
  for (int64_t h = 0; h < 4; ++h)
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t s = 0; s < 3; ++s) {
        double expected = 0;
        for (int64_t d = 0; d < 5; ++d)
          expected += lhs[(b * 3 + s) * 5 + d] * rhs[(h * 5 + d) * 2 + b];
        EXPECT_NEAR(result[(h * 2 + b) * 3 + s], expected, 1e-12);
      }
}

/// A product with an epilogue equals the operations that it replaces. Columns have two dimensions, as in a fused
/// projection.
TEST_F(Operations, ProductsAreWhatTheyStandFor) {
  HostTensors operands = {randomTensor({3, 5}, 1), randomTensor({5, 2, 4}, 2), randomTensor({3, 2, 4}, 3),
                          randomTensor({2, 4}, 4)};
  auto evaluate = [&](const std::string &body) {
    return run(
        R"(func.func @f(%a: tensor<3x5xf32>, %b: tensor<5x2x4xf32>, %x: tensor<3x2x4xf32>, %bias: tensor<2x4xf32>)
      -> (tensor<3x2x4xf32>, tensor<3x2x4xf32>) {)" +
            body + " }",
        operands);
  };
  auto product = [&](const std::string &results, const std::string &epilogue, const std::string &types) {
    return evaluate(results + " = dt.product \"md,dhe->mhe\" %a, %b " + epilogue +
                    " : tensor<3x5xf32>, tensor<5x2x4xf32> -> " + types +
                    "\nreturn %0, %1 : tensor<3x2x4xf32>, tensor<3x2x4xf32>");
  };
  auto composed = [&](const std::string &results) {
    return evaluate(R"(%c = dt.contract "md,dhe->mhe" %a, %b : tensor<3x5xf32>, tensor<5x2x4xf32> -> tensor<3x2x4xf32>
      %wide = dt.broadcast %bias dims [1, 2] : tensor<2x4xf32> -> tensor<3x2x4xf32>
      %biased = dt.add %c, %wide : tensor<3x2x4xf32>
      %accumulated = dt.add %x, %c : tensor<3x2x4xf32>
      %gelu = dt.gelu %biased tanh : tensor<3x2x4xf32>
      %gradient = dt.gelu_grad %c, %x tanh : tensor<3x2x4xf32>
      return )" + results +
                    " : tensor<3x2x4xf32>, tensor<3x2x4xf32>");
  };
  const std::string type = "tensor<3x2x4xf32>", again = "\n%1 = dt.neg %0 : tensor<3x2x4xf32>";
  auto expectEqual = [&](const HostTensor &got, const HostTensor &want) {
    EXPECT_THAT(*got.elements, Pointwise(DoubleNear(1e-12), *want.elements));
  };
  HostTensors accumulated = product("%0", "onto %x : tensor<3x2x4xf32>", type + again);
  expectEqual(accumulated[0], composed("%accumulated, %x")[0]);
  HostTensors biased = product("%0", "bias %bias : tensor<2x4xf32>", type + again);
  expectEqual(biased[0], composed("%biased, %x")[0]);
  HostTensors gelu = product("%0", "bias %bias : tensor<2x4xf32> gelu", type + again);
  expectEqual(gelu[0], composed("%gelu, %x")[0]);
  HostTensors both = product("%0, %1", "bias %bias : tensor<2x4xf32> gelu", type + ", " + type);
  expectEqual(both[0], composed("%gelu, %x")[0]);
  expectEqual(both[1], composed("%biased, %x")[0]);
  HostTensors gradient = product("%0", "gelu_grad %x : tensor<3x2x4xf32>", type + again);
  expectEqual(gradient[0], composed("%gradient, %x")[0]);
}

TEST_F(Operations, ReduceMaxKeepsNaNAndOtherDimensions) {
  HostTensor x = tensor({2, 3}, {1, -5, 2, NAN, -1, -2});
  HostTensor result = run(R"(func.func @f(%a: tensor<2x3xf32>) -> tensor<2xf32> {
    %0 = dt.reduce max %a over [1] : tensor<2x3xf32> -> tensor<2xf32>
    return %0 : tensor<2xf32> })",
                          {x})[0];
  EXPECT_EQ(result[0], 2);
  EXPECT_TRUE(std::isnan(result[1]));
}

TEST_F(Operations, PoisonedMasksPoisonWhatTheySelect) {
  HostTensor index = tensor({3}, {0, 7, poisonValue});
  HostTensor result = run(R"(func.func @f(%i: tensor<3xi32>) -> tensor<3xf32> {
    %zero = dt.constant dense<0> : tensor<3xi32>
    %one = dt.constant dense<1.0> : tensor<3xf32>
    %two = dt.constant dense<2.0> : tensor<3xf32>
    %mask = dt.compare eq %i, %zero : tensor<3xi32> -> tensor<3xi1>
    %0 = dt.select %mask, %one, %two : tensor<3xi1>, tensor<3xf32>
    return %0 : tensor<3xf32> })",
                          {index})[0];
  EXPECT_EQ(result[0], 1);
  EXPECT_EQ(result[1], 2);
  EXPECT_TRUE(std::isnan(result[2]));
}

TEST_F(Operations, SliceUndoesPadAndConcatLaysEndToEnd) {
  HostTensors results = run(R"(func.func @f(%a: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x4xf32>) {
    %p = dt.pad %a at [1, 2] : tensor<2x2xf32> -> tensor<4x5xf32>
    %s = dt.slice %p at [1, 2] : tensor<4x5xf32> -> tensor<2x2xf32>
    %c = dt.concat %a, %s along 1 : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x4xf32>
    return %s, %c : tensor<2x2xf32>, tensor<2x4xf32> })",
                            {iota({2, 2})});
  EXPECT_THAT(*results[0].elements, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(*results[1].elements, ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
}

TEST_F(Operations, ConcatTakesWhatLacksTheDimensionAsOnePlaceOfIt) {
  HostTensors results = run(R"(func.func @f(%a: tensor<2x2xf32>, %b: tensor<2xf32>) -> tensor<2x4xf32> {
    %c = dt.concat %b, %a, %b along 1 : tensor<2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<2x4xf32>
    return %c : tensor<2x4xf32> })",
                            {iota({2, 2}), iota({2})});
  EXPECT_THAT(*results[0].elements, ElementsAre(0, 0, 1, 0, 1, 2, 3, 1));
}

TEST_F(Operations, UpdateSliceReplacesABoxAndKeepsTheRest) {
  HostTensor init = iota({2, 3});
  HostTensor result = run(R"(func.func @f(%a: tensor<2x3xf32>, %b: tensor<1x2xf32>) -> tensor<2x3xf32> {
    %c = dt.copy %b : tensor<1x2xf32>
    %0 = dt.update_slice %c into %a at [1, 0] : tensor<1x2xf32> -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32> })",
                          {init, tensor({1, 2}, {7, 8})})[0];
  EXPECT_THAT(*result.elements, ElementsAre(0, 1, 2, 7, 8, 5));
  EXPECT_THAT(*init.elements, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(Operations, WriteRowsPutsEachRowAtItsPositionAndSkipsThoseOutside) {
  HostTensor init = iota({2, 3, 1});
  HostTensor result = run(R"(func.func @f(%c: tensor<2x3x1xf32>, %r: tensor<2x3x1xf32>, %p: tensor<3xi32>)
      -> tensor<2x3x1xf32> {
    %0 = dt.write_rows %r into %c at %p : tensor<2x3x1xf32>, tensor<3xi32> -> tensor<2x3x1xf32>
    return %0 : tensor<2x3x1xf32> })",
                          {init, tensor({2, 3, 1}, {10, 11, 12, 20, 21, 22}), tensor({3}, {2, 3, 0})})[0];
  EXPECT_THAT(*result.elements, ElementsAre(12, 1, 10, 22, 4, 20));
  EXPECT_THAT(*init.elements, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(Operations, LayerNormGivesZeroMeanAndUnitVariance) {
  HostTensors results = run(R"(func.func @f(%x: tensor<3x16xf32>, %s: tensor<16xf32>, %b: tensor<16xf32>)
      -> (tensor<3x16xf32>, tensor<3xf32>, tensor<3xf32>) {
    %y, %m, %r = dt.layer_norm %x, %s, %b epsilon 0.0 : (tensor<3x16xf32>, tensor<16xf32>, tensor<16xf32>)
      -> (tensor<3x16xf32>, tensor<3xf32>, tensor<3xf32>)
    return %y, %m, %r : tensor<3x16xf32>, tensor<3xf32>, tensor<3xf32> })",
                            {randomTensor({3, 16}, 3), HostTensor({16}, 1.0), HostTensor({16}, 0.0)});
  for (int64_t row = 0; row < 3; ++row) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < 16; ++i) {
      sum += results[0][row * 16 + i];
      squares += results[0][row * 16 + i] * results[0][row * 16 + i];
    }
    EXPECT_NEAR(sum, 0, 1e-12);
    EXPECT_NEAR(squares, 16, 1e-12);
  }
}

constexpr const char *crossEntropy =
    R"(func.func @f(%x: tensor<2x3xf32>, %t: tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %n, %l = dt.softmax_cross_entropy %x, %t ignore -100 : (tensor<2x3xf32>, tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>)
    return %n, %l : tensor<2xf32>, tensor<2xf32> })";

TEST_F(Operations, CrossEntropyIgnoresItsIndex) {
  HostTensors results = run(crossEntropy, {tensor({2, 3}, {1, 1, 1, 2, 3, 4}), tensor({2}, {1, -100})});
  EXPECT_NEAR(results[0][0], std::log(3.0), 1e-12);
  EXPECT_EQ(results[0][1], 0);
  EXPECT_NEAR(results[1][1], std::log(std::exp(2.0) + std::exp(3.0) + std::exp(4.0)), 1e-12);
}

TEST_F(Operations, CrossEntropyRefusesATargetOutOfRange) {
  func::FuncOp function = parse(crossEntropy);
  EXPECT_TRUE(failed(interpret(function, {tensor({2, 3}, {1, 1, 1, 2, 3, 4}), tensor({2}, {1, 3})})));
  EXPECT_THAT(error, HasSubstr("target 3 is neither one of 3 classes nor the ignored -100"));
}

TEST_F(Operations, RotaryTurnsPairsAndInverseTurnsThemBack) {
  HostTensor x = randomTensor({1, 3, 2, 4}, 5), positions = tensor({3}, {0, 1, 5});
  HostTensors results = run(R"(func.func @f(%x: tensor<1x3x2x4xf32>, %p: tensor<3xi32>)
      -> (tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>) {
    %y = dt.rotary %x, %p theta 100.0 : tensor<1x3x2x4xf32>, tensor<3xi32>
    %z = dt.rotary %y, %p theta 100.0 inverse : tensor<1x3x2x4xf32>, tensor<3xi32>
    return %y, %z : tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32> })",
                            {x, positions});
  EXPECT_THAT(*results[1].elements, Pointwise(DoubleNear(1e-12), *x.elements));
  // Position 5, head 1, pair 1: angle 5 * 100^(-2/4) = 0.5.
  int64_t row = (2 * 2 + 1) * 4;
  EXPECT_NEAR(results[0][row + 1], x[row + 1] * std::cos(0.5) - x[row + 3] * std::sin(0.5), 1e-12);
  EXPECT_NEAR(results[0][row + 3], x[row + 3] * std::cos(0.5) + x[row + 1] * std::sin(0.5), 1e-12);
}

TEST_F(Operations, RotaryTurnsSomePairsByScaledFrequencies) {
  HostTensor x = randomTensor({1, 2, 1, 8}, 5), positions = tensor({2}, {0, 7});
  HostTensors results = run(R"(func.func @f(%x: tensor<1x2x1x8xf32>, %p: tensor<2xi32>) -> tensor<1x2x1x8xf32> {
    %y = dt.rotary %x, %p theta 100.0 pairs 2
        scaling <factor = 4.0, per_frequency = 2.0, per_pair = 0.25, constant = -0.1, amplitude = 1.5>
        : tensor<1x2x1x8xf32>, tensor<2xi32>
    return %y : tensor<1x2x1x8xf32> })",
                            {x, positions});
  // Pair 0 has frequency 1, of which 2 - 0.1 would be kept: all. Pair 1 has 0.1, of which 0.2 + 0.25 - 0.1 is kept.
  double angles[] = {7, 7 * 0.1 * (0.35 + 0.65 / 4)};
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(results[0][8 + i], 1.5 * (x[8 + i] * std::cos(angles[i]) - x[10 + i] * std::sin(angles[i])), 1e-12);
    EXPECT_NEAR(results[0][10 + i], 1.5 * (x[10 + i] * std::cos(angles[i]) + x[8 + i] * std::sin(angles[i])), 1e-12);
  }
  for (int64_t i = 12; i < 16; ++i)
    EXPECT_EQ(results[0][i], x[i]);
}

// With equal scores a query averages the values that its window shows; a soft cap changes the scores, not which values
// are shown.
TEST_F(Operations, AttentionSeesAWindowOfKeys) {
  HostTensor q = randomTensor({1, 5, 1, 1, 1}, 1), k = HostTensor({1, 5, 1, 1}, 0.0);
  HostTensor v = tensor({1, 5, 1, 1}, {1, 10, 100, 1000, 10000}), key = tensor({4}, {1, 2, 4, 0});
  HostTensors results = run(R"(func.func @f(%q: tensor<1x5x1x1x1xf32>, %k: tensor<1x5x1x1xf32>, %v: tensor<1x5x1x1xf32>,
      %p: tensor<5xi32>, %key: tensor<4xi32>) -> (tensor<1x5x1x1x1xf32>, tensor<1x1x1x5xf32>) {
    %o, %l = dt.attention %q, %k, %v, %p, %p, %key {scale = 0.5, causal = true, dropout = 0.0, site = 9 : i64,
        global_shape = array<i64: 1, 1, 1, 5>, window = 2 : i64, softcap = 3.0}
      : (tensor<1x5x1x1x1xf32>, tensor<1x5x1x1xf32>, tensor<1x5x1x1xf32>, tensor<5xi32>, tensor<5xi32>, tensor<4xi32>)
      -> (tensor<1x5x1x1x1xf32>, tensor<1x1x1x5xf32>)
    return %o, %l : tensor<1x5x1x1x1xf32>, tensor<1x1x1x5xf32> })",
                            {q, k, v, iota({5}), key});
  EXPECT_THAT(*results[0].elements, Pointwise(DoubleNear(1e-9), {1.0, 5.5, 55.0, 550.0, 5500.0}));
}

TEST_F(Operations, DropoutDrawsWhatRandomDraws) {
  HostTensor key = tensor({4}, {11, 3, 8, 0});
  HostTensors results =
      run(R"(func.func @f(%x: tensor<4x8xf32>, %key: tensor<4xi32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %y = dt.dropout %x, %key rate 0.5 site 6 : tensor<4x8xf32>, tensor<4xi32>
    %u = dt.random %key site 6 of [4, 8] : tensor<4xi32> -> tensor<4x8xf32>
    return %y, %u : tensor<4x8xf32>, tensor<4x8xf32> })",
          {HostTensor({4, 8}, 1.0), key});
  for (int64_t i = 0; i < 32; ++i)
    EXPECT_EQ(results[0][i], results[1][i] >= 0.5 ? 2 : 0);
  EXPECT_EQ(results[1][9], dtc::random::uniform(dtc::random::stream(11, 3, 6), (8 + 1) * 8 + 1));
}

// Attention against the formula written out with a score matrix.
TEST_F(Operations, AttentionIsSoftmaxOfScaledProductsWithGroupedHeads) {
  HostTensor q = randomTensor({2, 3, 2, 2, 4}, 1), k = randomTensor({2, 3, 2, 4}, 2), v = randomTensor({2, 3, 2, 4}, 3);
  HostTensor positions = iota({3}), key = tensor({4}, {1, 2, 4, 0});
  HostTensors results = run(R"(func.func @f(%q: tensor<2x3x2x2x4xf32>, %k: tensor<2x3x2x4xf32>, %v: tensor<2x3x2x4xf32>,
      %p: tensor<3xi32>, %key: tensor<4xi32>) -> (tensor<2x3x2x2x4xf32>, tensor<2x2x2x3xf32>) {
    %o, %l = dt.attention %q, %k, %v, %p, %p, %key {scale = 0.5, causal = true, dropout = 0.25, site = 9 : i64,
        global_shape = array<i64: 2, 2, 2, 3>}
      : (tensor<2x3x2x2x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>, tensor<3xi32>, tensor<3xi32>, tensor<4xi32>)
      -> (tensor<2x3x2x2x4xf32>, tensor<2x2x2x3xf32>)
    return %o, %l : tensor<2x3x2x2x4xf32>, tensor<2x2x2x3xf32> })",
                            {q, k, v, positions, key});
  uint32_t stream = dtc::random::stream(1, 2, 9);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t g = 0; g < 2; ++g)
      for (int64_t r = 0; r < 2; ++r)
        for (int64_t s = 0; s < 3; ++s) {
          double sum = 0, expected[4] = {};
          for (int64_t t = 0; t <= s; ++t) {
            double score = 0;
            for (int64_t e = 0; e < 4; ++e)
              score += 0.5 * q[(((b * 3 + s) * 2 + g) * 2 + r) * 4 + e] * k[((b * 3 + t) * 2 + g) * 4 + e];
            sum += std::exp(score);
            int64_t index = ((((b + 4) * 2 + g) * 2 + r) * 3 + s) * 3 + t;
            double factor = dtc::random::uniform(stream, uint64_t(index)) < 0.25 ? 0 : 1 / 0.75;
            for (int64_t e = 0; e < 4; ++e)
              expected[e] += std::exp(score) * factor * v[((b * 3 + t) * 2 + g) * 4 + e];
          }
          EXPECT_NEAR(results[1][((b * 2 + g) * 2 + r) * 3 + s], std::log(sum), 1e-12);
          for (int64_t e = 0; e < 4; ++e)
            EXPECT_NEAR(results[0][(((b * 3 + s) * 2 + g) * 2 + r) * 4 + e], expected[e] / sum, 1e-12);
        }
}

// Central differences of sum(out * weight) for each operand.
TEST_F(Operations, AttentionGradIsTheDerivative) {
  HostTensor q = randomTensor({1, 3, 1, 2, 4}, 1), k = randomTensor({1, 3, 1, 4}, 2), v = randomTensor({1, 3, 1, 4}, 3);
  HostTensor weight = randomTensor({1, 3, 1, 2, 4}, 4), positions = iota({3}), key = tensor({4}, {1, 2, 0, 0});
  HostTensors arguments = {q, k, v, positions, key, weight};
  func::FuncOp function =
      parse(R"(func.func @f(%q: tensor<1x3x1x2x4xf32>, %k: tensor<1x3x1x4xf32>, %v: tensor<1x3x1x4xf32>,
      %p: tensor<3xi32>, %key: tensor<4xi32>, %w: tensor<1x3x1x2x4xf32>)
      -> (tensor<1x3x1x2x4xf32>, tensor<1x3x1x2x4xf32>, tensor<1x3x1x4xf32>, tensor<1x3x1x4xf32>) {
    %o, %l = dt.attention %q, %k, %v, %p, %p, %key {scale = 0.5, causal = true, dropout = 0.25, site = 9 : i64,
        global_shape = array<i64: 1, 1, 2, 3>}
      : (tensor<1x3x1x2x4xf32>, tensor<1x3x1x4xf32>, tensor<1x3x1x4xf32>, tensor<3xi32>, tensor<3xi32>, tensor<4xi32>)
      -> (tensor<1x3x1x2x4xf32>, tensor<1x1x2x3xf32>)
    %dq, %dk, %dv = dt.attention_grad %q, %k, %v, %p, %p, %key, %o, %l, %w {scale = 0.5, causal = true, dropout = 0.25,
        site = 9 : i64, global_shape = array<i64: 1, 1, 2, 3>}
      : (tensor<1x3x1x2x4xf32>, tensor<1x3x1x4xf32>, tensor<1x3x1x4xf32>, tensor<3xi32>, tensor<3xi32>, tensor<4xi32>,
         tensor<1x3x1x2x4xf32>, tensor<1x1x2x3xf32>, tensor<1x3x1x2x4xf32>)
      -> (tensor<1x3x1x2x4xf32>, tensor<1x3x1x4xf32>, tensor<1x3x1x4xf32>)
    return %o, %dq, %dk, %dv : tensor<1x3x1x2x4xf32>, tensor<1x3x1x2x4xf32>, tensor<1x3x1x4xf32>, tensor<1x3x1x4xf32> })");
  auto objective = [&] {
    HostTensor out = (*interpret(function, arguments))[0];
    double sum = 0;
    for (int64_t i = 0; i < out.size(); ++i)
      sum += out[i] * weight[i];
    return sum;
  };
  HostTensors results = *interpret(function, arguments);
  for (int operand = 0; operand < 3; ++operand)
    for (int64_t i = 0; i < arguments[operand].size(); ++i) {
      double saved = arguments[operand][i], step = 1e-5;
      arguments[operand][i] = saved + step;
      double above = objective();
      arguments[operand][i] = saved - step;
      double below = objective();
      arguments[operand][i] = saved;
      EXPECT_NEAR(results[1 + operand][i], (above - below) / (2 * step), 1e-8) << "operand " << operand << " " << i;
    }
}

TEST_F(Operations, RoundsToF32OnRequest) {
  constexpr const char *third = R"(func.func @f(%a: tensor<1xf32>, %b: tensor<1xf32>) -> tensor<1xf32> {
    %0 = dt.div %a, %b : tensor<1xf32>
    return %0 : tensor<1xf32> })";
  HostTensors arguments = {tensor({1}, {1}), tensor({1}, {3})};
  EXPECT_EQ(run(third, arguments)[0][0], 1.0 / 3.0);
  EXPECT_EQ(run(third, arguments, {.f64 = false})[0][0], double(1.0f / 3.0f));
}

TEST_F(Operations, ConversionsRoundToTheirTypeOnRequest) {
  constexpr const char *narrow = R"(func.func @f(%a: tensor<8xf32>) -> (tensor<8xbf16>, tensor<8xf16>, tensor<8xf32>) {
    %0 = dt.convert %a : tensor<8xf32> -> tensor<8xbf16>
    %1 = dt.convert %a : tensor<8xf32> -> tensor<8xf16>
    %2 = dt.convert %0 : tensor<8xbf16> -> tensor<8xf32>
    return %0, %1, %2 : tensor<8xbf16>, tensor<8xf16>, tensor<8xf32> })";
  // A tie, its neighbour, the largest f16 and a number beyond it, a subnormal of f16, one of bf16, not finite.
  HostTensors arguments = {
      tensor({8}, {1 + 0x1p-8, 1 + 3 * 0x1p-8, 65519, -65520, 0x1.8p-24, 0x1.8p-133, INFINITY, NAN})};
  HostTensors rounded = run(narrow, arguments, {.f64 = false}), exact = run(narrow, arguments);
  const std::vector<double> bf16 = {1, 1 + 0x1p-6, 65536, -65536, 0x1.8p-24, 0x1p-132, INFINITY},
                            f16 = {1 + 0x1p-8, 1 + 3 * 0x1p-8, 65504, -INFINITY, 0x1p-23, 0, INFINITY};
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(rounded[0][i], bf16[i]) << i;
    EXPECT_EQ(rounded[1][i], f16[i]) << i;
    EXPECT_EQ(rounded[2][i], bf16[i]) << i;
    for (int result = 0; result < 3; ++result)
      EXPECT_EQ(exact[result][i], arguments[0][i]) << i;
  }
  for (int result = 0; result < 3; ++result)
    EXPECT_TRUE(std::isnan(rounded[result][7]) && std::isnan(exact[result][7]));
}

/// Each result is rounded once, from the exact one: not first to f32.
TEST_F(Operations, ArithmeticRoundsToItsType) {
  constexpr const char *sum =
      R"(func.func @f(%a: tensor<1xbf16>, %b: tensor<1xbf16>) -> (tensor<1xbf16>, tensor<1xbf16>) {
    %0 = dt.add %a, %b : tensor<1xbf16>
    %1 = dt.div %a, %b : tensor<1xbf16>
    return %0, %1 : tensor<1xbf16>, tensor<1xbf16> })";
  HostTensors arguments = {tensor({1}, {1}), tensor({1}, {0x1.02p-8})}; // 1.0078125 in bf16
  HostTensors results = run(sum, arguments, {.f64 = false});
  EXPECT_EQ(results[0][0], 1 + 0x1p-7);
  EXPECT_EQ(results[1][0], 254); // 254.016
}

TEST_F(Operations, AnArgumentOfTheWrongShapeIsAnError) {
  func::FuncOp function = parse(R"(func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
    return %a : tensor<2xf32> })");
  EXPECT_TRUE(failed(interpret(function, HostTensors{iota({3})})));
  EXPECT_THAT(error, HasSubstr("argument 0 has type 'tensor<2xf32>', got a tensor of shape [3] on rank 0"));
}

} // namespace
} // namespace mlir::dt::test
