// Sets of stages, against sets of numbers.
#include "passes/analysis/StageSet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace dtc {
namespace {

using testing::ElementsAre;

StageSet setOf(const std::set<int64_t> &numbers) {
  StageSet set;
  for (int64_t number : numbers)
    set |= StageSet::of(number);
  return set;
}

TEST(StageSetTest, AnEmptySetHasNothing) {
  StageSet set;
  EXPECT_TRUE(set.isEmpty());
  EXPECT_FALSE(set.hasOne());
  EXPECT_EQ(set.size(), 0);
  EXPECT_EQ(set.first(), mostStages);
  EXPECT_EQ(set.last(), -1);
  EXPECT_TRUE(set.numbers().empty());
  EXPECT_FALSE(set.contains(0));
}

TEST(StageSetTest, EveryNumberIsASetOfItsOwn) {
  for (int64_t number = 0; number < mostStages; ++number) {
    StageSet set = StageSet::of(number);
    EXPECT_TRUE(set.hasOne());
    EXPECT_EQ(set.first(), number);
    EXPECT_EQ(set.last(), number);
    EXPECT_THAT(set.numbers(), ElementsAre(number));
    for (int64_t other = 0; other < mostStages; ++other)
      EXPECT_EQ(set.contains(other), other == number);
  }
}

TEST(StageSetTest, NumbersAreBelowACount) {
  for (int64_t count : {0, 1, 2, 63, 64, 65, 127, 128}) {
    StageSet set = StageSet::below(count);
    EXPECT_EQ(set.size(), count);
    EXPECT_EQ(set.last(), count - 1);
    EXPECT_FALSE(set.contains(count));
    EXPECT_EQ(set.isEmpty(), count == 0);
    EXPECT_EQ(set.hasOne(), count == 1);
  }
}

TEST(StageSetTest, ImpossibleNumbersAreInNoSet) {
  StageSet all = StageSet::below(mostStages);
  for (int64_t number : {int64_t(-1), int64_t(-64), mostStages, 2 * mostStages}) {
    EXPECT_TRUE(StageSet::of(number).isEmpty());
    EXPECT_FALSE(all.contains(number));
  }
}

TEST(StageSetTest, SetsAreJoinedAndIntersected) {
  std::mt19937 random(7);
  auto draw = [&] {
    std::set<int64_t> numbers;
    for (auto i = random() % 40; i > 0; --i)
      numbers.insert(static_cast<int64_t>(random() % mostStages));
    return numbers;
  };
  for (int trial = 0; trial < 1000; ++trial) {
    std::set<int64_t> one = draw(), other = draw(), any = one, both;
    any.insert(other.begin(), other.end());
    for (int64_t number : one)
      if (other.contains(number))
        both.insert(number);
    StageSet joined = setOf(one) | setOf(other), common = setOf(one) & setOf(other);
    EXPECT_THAT(joined.numbers(), testing::ElementsAreArray(any));
    EXPECT_THAT(common.numbers(), testing::ElementsAreArray(both));
    EXPECT_EQ(joined, setOf(any));
    EXPECT_EQ(setOf(one) == setOf(other), one == other);
    EXPECT_EQ(common.size(), static_cast<int64_t>(both.size()));
    EXPECT_EQ(joined.first(), any.empty() ? mostStages : *any.begin());
    EXPECT_EQ(joined.last(), any.empty() ? -1 : *any.rbegin());
  }
}

} // namespace
} // namespace dtc
