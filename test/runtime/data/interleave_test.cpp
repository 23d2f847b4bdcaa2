#include "runtime/data/interleave.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <gmock/gmock.h>
#include <numeric>

using namespace dtc;
using testing::ElementsAre;

namespace {

std::vector<size_t> turns(const std::vector<int64_t> &counts) {
  Interleaving order(counts);
  std::vector<size_t> sources;
  for (int64_t i = 0; i < order.size(); ++i)
    sources.push_back(order.at(i).source);
  return sources;
}

TEST(Interleave, TwoSourcesTakeTurns) {
  EXPECT_THAT(turns({2, 2}), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(turns({1, 3}), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(turns({3}), ElementsAre(0, 0, 0));
  EXPECT_THAT(turns({0, 2, 0}), ElementsAre(1, 1));
}

// For each prefix, and each index once and in order.
TEST(Interleave, EachSourceHasItsShareExactlyAndAllAlong) {
  for (const std::vector<int64_t> &counts : std::vector<std::vector<int64_t>>{
           {7, 3}, {1, 1000}, {5, 5, 5}, {700, 200, 90, 10}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {331, 0, 17, 1, 250}}) {
    Interleaving order(counts);
    ASSERT_EQ(order.size(), std::accumulate(counts.begin(), counts.end(), int64_t(0)));
    std::vector<int64_t> used(counts.size());
    double levels = std::bit_width(counts.size() - 1);
    for (int64_t i = 0; i < order.size(); ++i) {
      auto [source, index] = order.at(i);
      EXPECT_EQ(index, used[source]++);
      for (size_t s = 0; s < counts.size(); ++s) {
        double share = static_cast<double>(counts[s]) * static_cast<double>(i + 1) / static_cast<double>(order.size());
        EXPECT_LE(std::abs(static_cast<double>(used[s]) - share), levels / 2 + 1e-9);
      }
    }
    EXPECT_EQ(used, counts);
  }
}

TEST(Interleave, ReachesAnyPositionOfALongEpoch) {
  int64_t big = int64_t(1) << 40;
  Interleaving order({3 * big, big});
  EXPECT_EQ(order.at(4 * big - 1).source + order.at(4 * big - 2).source + order.at(4 * big - 3).source +
                order.at(4 * big - 4).source,
            1u);
  EXPECT_EQ(order.at(2 * big).index, order.at(2 * big).source == 0 ? 3 * big / 2 : big / 2);
}

TEST(Apportion, IsExactInSumAndWithinOneOfEachShare) {
  EXPECT_THAT(apportion(10, {0.7, 0.3}), ElementsAre(7, 3));
  EXPECT_THAT(apportion(10, {7, 3}), ElementsAre(7, 3));
  EXPECT_THAT(apportion(10, {1, 1, 1}), ElementsAre(4, 3, 3));
  EXPECT_THAT(apportion(7, {0.5, 0.25, 0.25}), ElementsAre(3, 2, 2));
  EXPECT_THAT(apportion(3, {1000, 1}), ElementsAre(3, 0));
  std::vector<double> weights = {0.1, 0.2, 0.3, 0.15, 0.25};
  for (int64_t total : {1, 17, 1000, 123456789}) {
    std::vector<int64_t> parts = apportion(total, weights);
    EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), int64_t(0)), total);
    for (size_t i = 0; i < parts.size(); ++i)
      EXPECT_LT(std::abs(static_cast<double>(parts[i]) - static_cast<double>(total) * weights[i]), 1);
  }
}

} // namespace
