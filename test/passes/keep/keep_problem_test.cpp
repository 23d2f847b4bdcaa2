// What is kept of a layer, against all possible sets.
#include "passes/keep/recompute/KeepProblem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

namespace dtc {
namespace {

/// The cost of keeping only the values of `bits`, as far as something needs them; nothing where one of them is not
/// stored.
std::optional<KeptSet> setOf(const KeepProblem &problem, unsigned bits) {
  KeptSet set;
  std::vector<bool> isNeeded;
  for (const KeepProblem::Value &value : problem.values)
    isNeeded.push_back(value.isRead);
  for (size_t number = problem.values.size(); number-- > 0;) {
    const KeepProblem::Value &value = problem.values[number];
    bool isKept = (bits >> number & 1) != 0;
    if (isKept && !value.isStored)
      return std::nullopt;
    if (!isNeeded[number])
      continue;
    if (isKept) {
      set.kept.insert(set.kept.begin(), number);
      set.bytes += value.bytes;
      continue;
    }
    set.again.insert(set.again.begin(), number);
    set.seconds += value.seconds;
    for (size_t operand : value.madeOf)
      isNeeded[operand] = true;
  }
  return set;
}

KeepProblem randomProblem(std::mt19937 &random) {
  KeepProblem problem;
  for (size_t number = 0, count = 1 + random() % 9; number < count; ++number) {
    KeepProblem::Value &value = problem.values.emplace_back();
    value.name = std::to_string(number);
    value.isStored = random() % 4 != 0;
    value.isRead = random() % 2 == 0;
    value.bytes = value.isStored ? random() % 100 : 0;
    value.seconds = value.isStored ? random() % 100 : 0;
    for (size_t operand = 0; operand < number; ++operand)
      if (random() % 3 == 0)
        value.madeOf.push_back(operand);
  }
  return problem;
}

TEST(KeepProblem, IsSolvedAsWellAsByTryingAllSets) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 300; ++trial) {
    KeepProblem problem = randomProblem(random);
    for (double price : {0.0, 0.1, 0.7, 1.0, 3.0, 50.0}) {
      KeptSet found = keepAtPrice(problem, price);
      double least = std::numeric_limits<double>::infinity();
      unsigned own = 0;
      for (size_t number : found.kept)
        own |= 1U << number;
      for (unsigned bits = 0; bits < 1U << problem.values.size(); ++bits)
        if (std::optional<KeptSet> set = setOf(problem, bits))
          least = std::min(least, set->seconds + price * set->bytes);
      EXPECT_NEAR(found.seconds + price * found.bytes, least, 1e-9 * (1 + least));
      // The set gives the backward pass all that it reads.
      std::optional<KeptSet> same = setOf(problem, own);
      ASSERT_TRUE(same);
      EXPECT_EQ(same->again, found.again);
      EXPECT_EQ(same->kept, found.kept);
    }
  }
}

TEST(KeepProblem, HasTheBestSetsOfAllPrices) {
  std::mt19937 random(13);
  for (int trial = 0; trial < 100; ++trial) {
    KeepProblem problem = randomProblem(random);
    std::vector<KeptSet> sets = keptSets(problem);
    for (size_t i = 1; i < sets.size(); ++i) {
      EXPECT_LT(sets[i].bytes, sets[i - 1].bytes);
      EXPECT_GT(sets[i].seconds, sets[i - 1].seconds);
    }
    for (double price = 0.01; price < 1000; price *= 1.3) {
      KeptSet best = keepAtPrice(problem, price);
      double least = std::numeric_limits<double>::infinity();
      for (const KeptSet &set : sets)
        least = std::min(least, set.seconds + price * set.bytes);
      EXPECT_NEAR(best.seconds + price * best.bytes, least, 1e-8 * (1 + least));
    }
  }
}

// A product that a norm and an activation read: these are recomputed first, and the product where bytes are expensive.
TEST(KeepProblem, PrefersWhatIsCheapForItsBytes) {
  KeepProblem problem{{{"norm", 4, 1, {}, true}, {"product", 16, 40, {0}, false}, {"gelu", 16, 2, {1}, true}}};
  std::vector<KeptSet> sets = keptSets(problem);
  ASSERT_EQ(sets.size(), 3U);
  using testing::ElementsAre, testing::IsEmpty;
  EXPECT_THAT(sets[0].kept, ElementsAre(0, 2));
  EXPECT_THAT(sets[0].again, IsEmpty());
  EXPECT_THAT(sets[1].kept, ElementsAre(2));
  EXPECT_THAT(sets[1].again, ElementsAre(0));
  EXPECT_THAT(sets[2].kept, IsEmpty());
  EXPECT_THAT(sets[2].again, ElementsAre(0, 1, 2));
}

} // namespace
} // namespace dtc
