// Mixes against all possible mixes.
#include "passes/pipelines/search/Knapsack.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace dtc {
namespace {

std::vector<Mix> allMixes(const std::vector<std::vector<Way>> &items) {
  std::vector<Mix> mixes{{}};
  for (const std::vector<Way> &ways : items) {
    std::vector<Mix> next;
    for (const Mix &mix : mixes)
      for (size_t way = 0; way < ways.size(); ++way) {
        Mix more{mix.bytes + ways[way].bytes, mix.seconds + ways[way].seconds, mix.ways};
        more.ways.push_back(way);
        next.push_back(std::move(more));
      }
    mixes = std::move(next);
  }
  return mixes;
}

double leastSeconds(const std::vector<Mix> &mixes, double bytes) {
  double least = std::numeric_limits<double>::infinity();
  for (const Mix &mix : mixes)
    if (mix.bytes <= bytes)
      least = std::min(least, mix.seconds);
  return least;
}

std::vector<std::vector<Way>> randomItems(std::mt19937 &random) {
  std::vector<std::vector<Way>> items(1 + random() % 5);
  for (std::vector<Way> &ways : items)
    for (size_t i = 0, count = 1 + random() % 4; i < count; ++i)
      ways.push_back({static_cast<double>(random() % 40) - 20, static_cast<double>(random() % 40)});
  return items;
}

TEST(Knapsack, HasTheBestMixOfEachLimit) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::vector<Way>> items = randomItems(random);
    std::vector<Mix> best = bestMixes(items, 10000), all = allMixes(items);
    for (double bytes = -120; bytes <= 120; bytes += 1)
      EXPECT_EQ(leastSeconds(best, bytes), leastSeconds(all, bytes));
    for (size_t i = 0; i < best.size(); ++i) {
      EXPECT_TRUE(i == 0 || (best[i].bytes < best[i - 1].bytes && best[i].seconds > best[i - 1].seconds));
      double bytes = 0, seconds = 0;
      for (size_t item = 0; item < items.size(); ++item) {
        bytes += items[item][best[i].ways[item]].bytes;
        seconds += items[item][best[i].ways[item]].seconds;
      }
      EXPECT_EQ(bytes, best[i].bytes);
      EXPECT_EQ(seconds, best[i].seconds);
    }
  }
}

TEST(Knapsack, KeepsTheFirstAndTheLastOfMany) {
  std::vector<std::vector<Way>> items(40, {{0, 0}, {-1, 1}, {-3, 5}});
  std::vector<Mix> all = bestMixes(items, 1000), few = bestMixes(items, 8);
  EXPECT_GT(all.size(), 60U);
  EXPECT_LE(few.size(), 8U);
  EXPECT_GE(few.size(), 6U);
  EXPECT_EQ(few.front().bytes, 0);
  EXPECT_EQ(few.back().bytes, -120);
  EXPECT_EQ(few.back().seconds, 200);
}

} // namespace
} // namespace dtc
