// Names that are nearly right are recognised; for others nothing is suggested.
#include "runtime/support/suggest.h"

#include <gtest/gtest.h>

using namespace dtc;

namespace {

const std::vector<std::string> names = {"steps", "global_batch", "seed", "sequence_length"};

TEST(SuggestTest, EditDistanceCountsChangedCharacters) {
  EXPECT_EQ(editDistance("", ""), 0u);
  EXPECT_EQ(editDistance("", "abc"), 3u);
  EXPECT_EQ(editDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(editDistance("flaw", "lawn"), 2u);
}

TEST(SuggestTest, OffersTheNearestName) {
  EXPECT_EQ(nearest("step", names), "steps");
  EXPECT_EQ(nearest("globalbatch", names), "global_batch");
  EXPECT_EQ(didYouMean("sede", names), "; did you mean 'seed'?");
}

TEST(SuggestTest, OffersNothingWhenNothingIsNear) {
  EXPECT_EQ(nearest("learning_rate", names), "");
  EXPECT_EQ(didYouMean("x", names), "");
  EXPECT_EQ(nearest("x", std::vector<std::string>()), "");
}

TEST(SuggestTest, AHostileNameCostsLittle) { EXPECT_EQ(nearest(std::string(10'000'000, 'x'), names), ""); }

} // namespace
