// The table of kinds of reductions.
#include "dialect/IR/Reductions.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <set>

using namespace mlir::dt;
using testing::DoubleEq;
using testing::ElementsAre;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
using Tuple = std::vector<double>;

Tuple combined(const Reduction &reduction, Tuple a, const Tuple &b) {
  reduction.combineTuples(a, b);
  return a;
}

Tuple merged(Tuple a, const Tuple &b) { return combined(reductionOf(dtc::abi::LOG_SUM_EXP), std::move(a), b); }

class Kinds : public testing::TestWithParam<dtc::abi::Reduction> {
protected:
  /// Small numbers; some weights are 0.
  Tuple random() {
    Tuple tuple;
    for (unsigned i = 0; i < kind.arity(); ++i)
      tuple.push_back(i > 0 && numbers() % 4 == 0 ? -infinity : double(numbers() % 2000) / 100 - 10);
    return tuple;
  }
  static void expectNear(const Tuple &a, const Tuple &b) {
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_TRUE(a[i] == b[i] || std::abs(a[i] - b[i]) < 1e-12 * (1 + std::abs(b[i]))) << a[i] << " and " << b[i];
  }

  const Reduction &kind = reductionOf(GetParam());
  std::mt19937 numbers{7};
};

TEST_P(Kinds, CombineInAnyOrderAndHaveAnIdentity) {
  ASSERT_EQ(kind.collective, GetParam());
  Tuple identity(kind.identities.begin(), kind.identities.end());
  ASSERT_EQ(identity.size(), kind.arity());
  for (int i = 0; i < 200; ++i) {
    Tuple a = random(), b = random(), c = random();
    expectNear(combined(kind, a, b), combined(kind, b, a));
    expectNear(combined(kind, combined(kind, a, b), c), combined(kind, a, combined(kind, b, c)));
    if (a.back() == -infinity)
      a.front() = 0; // its weight is 0: the value is not kept
    expectNear(combined(kind, identity, a), a);
    expectNear(combined(kind, a, identity), a);
    EXPECT_EQ(combined(kind, a, a) == a, kind.isIdempotent || a == identity);
  }
}

TEST_P(Kinds, OfSingleNumbersAreTheOperations) {
  EXPECT_EQ(kind.kind.has_value(), kind.arity() == 1);
  EXPECT_EQ(kind.emit != nullptr, kind.arity() == 1);
  if (kind.kind) {
    EXPECT_EQ(&reductionOf(*kind.kind), &kind);
    EXPECT_EQ(stringifyReductionKind(*kind.kind), kind.name);
  } else {
    EXPECT_FALSE(symbolizeReductionKind(kind.name)) << "an operation would accept it without its logarithms";
  }
}

INSTANTIATE_TEST_SUITE_P(All, Kinds, testing::Values(dtc::abi::SUM, dtc::abi::MAX, dtc::abi::LOG_SUM_EXP),
                         [](const auto &info) { return dtc::abi::Reduction_Name(info.param); });

TEST(Reductions, EachKindOfTheManifestHasARow) {
  std::set<std::string> names;
  for (int kind = dtc::abi::Reduction_MIN; kind <= dtc::abi::Reduction_MAX; ++kind)
    if (dtc::abi::Reduction_IsValid(kind))
      names.insert(reductionOf(static_cast<dtc::abi::Reduction>(kind)).name.str());
  EXPECT_THAT(names, ElementsAre("log_sum_exp", "max", "sum"));
}

TEST(Reductions, SumAndMaximumAreOfNumbers) {
  EXPECT_EQ(reductionOf(ReductionKind::Sum).combine(2, 3), 5);
  EXPECT_EQ(reductionOf(ReductionKind::Sum).identity(), 0);
  EXPECT_EQ(reductionOf(ReductionKind::Max).combine(2, 3), 3);
  EXPECT_EQ(reductionOf(ReductionKind::Max).identity(), -infinity);
  for (double number : {double(NAN), 1.0}) // on either side
    EXPECT_TRUE(std::isnan(reductionOf(ReductionKind::Max).combine(number, std::isnan(number) ? 1 : NAN)));
}

TEST(Reductions, RowsCountByTheirWeights) {
  EXPECT_THAT(merged({1, 0}, {3, std::log(3)}), ElementsAre(DoubleEq(2.5), DoubleEq(std::log(4))));
  EXPECT_THAT(merged({1, 5000}, {3, 5000}), ElementsAre(DoubleEq(2), DoubleEq(5000 + std::log(2))));
  EXPECT_THAT(merged({1, -5000}, {3, 5000}), ElementsAre(3, 5000));
}

TEST(Reductions, WhatHasNoWeightDoesNotCount) {
  for (double value : {7.0, infinity, double(NAN)}) {
    EXPECT_THAT(merged({value, -infinity}, {3, 1}), ElementsAre(3, 1));
    EXPECT_THAT(merged({3, 1}, {value, -infinity}), ElementsAre(3, 1));
    EXPECT_THAT(merged({value, -infinity}, {value, -infinity}), ElementsAre(0, -infinity));
  }
}

TEST(Reductions, AWeightThatIsNoNumberMakesNone) {
  for (double weight : {infinity, double(NAN)})
    for (const Tuple &tuple :
         {merged({1, weight}, {2, 0}), merged({1, 0}, {2, weight}), merged({1, -infinity}, {2, weight})})
      EXPECT_TRUE(std::isnan(tuple[0]) && std::isnan(tuple[1]));
}

} // namespace
