// Documents packed into samples that cost about the same attention.
#include "tools/dtc/text/Balance.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

using testing::ElementsAre;

namespace dtc {
namespace {

// An even share of the squares is 24. The documents of 4 go to different samples; each then has 8 left for 4 tokens,
// and gets documents of 2, where in the order of the file the samples would cost 32 and 16.
TEST(BalancedSamples, GiveShortDocumentsToSamplesWithLongOnes) {
  std::vector<size_t> lengths = {4, 4, 2, 2, 2, 2};
  EXPECT_THAT(balancedSamples(lengths, 8), ElementsAre(ElementsAre(0, 2, 3), ElementsAre(1, 4, 5)));
}

// 7 and 5 do not share a sample of 8; 3 fits next to 5 alone.
TEST(BalancedSamples, KeepDocumentsWhole) {
  std::vector<size_t> lengths = {5, 7, 3};
  EXPECT_THAT(balancedSamples(lengths, 8), ElementsAre(ElementsAre(1), ElementsAre(0, 2)));
}

TEST(BalancedSamples, OpenAnotherWhereNoneHasRoom) {
  std::vector<size_t> lengths = {5, 5, 5, 1}; // 16 tokens would be two samples
  EXPECT_THAT(balancedSamples(lengths, 8), testing::SizeIs(3));
}

TEST(BalancedSamples, HaveEachDocumentOnceAndNoMoreThanFits) {
  std::vector<size_t> lengths;
  for (size_t i = 0; i < 500; ++i)
    lengths.push_back(1 + i * i % 61);
  std::multiset<size_t> seen;
  for (const std::vector<size_t> &sample : balancedSamples(lengths, 64)) {
    size_t tokens = 0;
    for (size_t number : sample)
      tokens += lengths[number];
    EXPECT_LE(tokens, 64U);
    EXPECT_TRUE(std::ranges::is_sorted(sample));
    seen.insert(sample.begin(), sample.end());
  }
  EXPECT_EQ(seen.size(), lengths.size());
  EXPECT_EQ(std::set<size_t>(seen.begin(), seen.end()).size(), lengths.size());
}

TEST(BalancedSamples, OfNothingAreNone) { EXPECT_TRUE(balancedSamples({}, 8).empty()); }

} // namespace
} // namespace dtc
