// The checker's messages about timetables that do not work.
#include "timing/timetables/check.h"
#include "timing/timetables/csv.h"
#include "timing/timetables/named.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtc::timetables {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string faultIn(std::string_view csv, int64_t mostStashes = 0) {
  return findFault(readCsv(csv, "mine"), mostStashes);
}

TEST(Check, AcceptsWholeAndSplitBackwardPasses) {
  EXPECT_EQ(faultIn("0F0,0I0,0W0\n"), "");
  EXPECT_EQ(faultIn("0F0,0F1,0B0,0I1,0W1\n1F0,1I0,1F1,1B1,1W0\n"), "");
  EXPECT_EQ(faultIn("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n"), "");
}

TEST(Check, NamesEntriesThatAreNotThereOnce) {
  EXPECT_EQ(faultIn("0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n"), "rank 1: 1B1 (stage 1, micro-batch 1) is missing");
  EXPECT_EQ(faultIn("0F0,0F1,0B0,0B1\n1F0,1B0,1B1\n"), "rank 1: 1F1 (stage 1, micro-batch 1) is missing");
  EXPECT_EQ(faultIn("0F0,0F1,0I0,0I1,0W0\n"), "rank 0: 0W1 (stage 0, micro-batch 1) is missing");
  EXPECT_EQ(faultIn("0F0,0F1,0I0,0W1,0W0\n"), "rank 0: 0I1 (stage 0, micro-batch 1) is missing");
  EXPECT_EQ(faultIn("0F0,0F0,0B0\n"), "rank 0: 0F0 (stage 0, micro-batch 0) is there twice");
  EXPECT_EQ(faultIn("0F0,0B0,0W0\n"),
            "rank 0: the backward pass 0W0 (stage 0, micro-batch 0) is there whole (B) and in parts (I, W)");
  EXPECT_EQ(faultIn("0F0,0B0\n0F1,0B1\n"), "rank 1: 0F1 (stage 0, micro-batch 1) belongs to rank 0, which has stage 0");
  EXPECT_EQ(faultIn("0F0,2F0,0B0,2B0\n1F0,1B0,3F0,3B0,5F0,5B0\n"), "stage 4 is on no rank");
  EXPECT_EQ(faultIn("0F0,0B0,0F900000\n"), "1 stages and 900001 micro-batches take at least 1800002 entries, and there "
                                           "are 3");
}

TEST(Check, NamesEntriesOfARankThatComeTooEarly) {
  EXPECT_EQ(faultIn("0F0,2F0,0B0,2B0\n1F0,3B0,3F0,1B0\n"),
            "rank 1: 3B0 (stage 3, micro-batch 0) comes before 3F0, which it needs");
  EXPECT_EQ(faultIn("0F0,0W0,0I0\n"), "rank 0: 0W0 (stage 0, micro-batch 0) comes before 0I0, which it needs");
  EXPECT_EQ(faultIn("0F0,1B0,1F0,0B0\n"), "rank 0: 1B0 (stage 1, micro-batch 0) comes before 1F0, which it needs");
  EXPECT_EQ(faultIn("(0F0;0B0)OVERLAP_F_B\n"),
            "rank 0: 0B0 (stage 0, micro-batch 0) is co-scheduled with 0F0, which it needs");
}

// Each waits for what the other does after its own wait, in whatever order messages move. Where passes are in a right
// order and messages are not, as in pytorch#172668, timing/certify refuses: see BothSendFirst in certify_test.cpp.
TEST(Check, NamesRanksThatWaitForEachOther) {
  EXPECT_EQ(faultIn("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n"),
            "the ranks wait for each other for ever: rank 0 waits at 0B0 (stage 0, micro-batch 0) for 1B0 of rank 1; "
            "rank 1 waits at 1F1 (stage 1, micro-batch 1) for 0F1 of rank 0");
  // Rank 2 waits for the two, which wait for each other, and is not part of the cycle.
  std::string three = faultIn("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n2F0,2B0,2F1,2B1\n");
  EXPECT_THAT(three, HasSubstr("rank 0 waits at 0B0 (stage 0, micro-batch 0) for 1B0 of rank 1; rank 1 waits"));
  EXPECT_THAT(three, Not(HasSubstr("rank 2 waits")));
}

TEST(Check, NamesPairsThatCannotBe) {
  EXPECT_EQ(faultIn("(0F0;0F1)OVERLAP_F_B,0B0,0B1\n"),
            "rank 0: 0F0 (stage 0, micro-batch 0) and 0F1 (stage 0, micro-batch 1) are co-scheduled, but only a "
            "forward and a backward pass can be");
  Timetable timetable = readCsv("0F0,0B0\n", "mine");
  timetable.ranks[0][1].withNext = true;
  EXPECT_THAT(findFault(timetable), HasSubstr("there is no single entry beside it"));
}

TEST(Check, NamesTheEntryWithOneStashTooMany) {
  EXPECT_EQ(faultIn("0F0,0F1,0B0,0B1\n", 2), "");
  EXPECT_EQ(faultIn("0F0,0F1,0B0,0B1\n", 1),
            "rank 0: at 0F1 (stage 0, micro-batch 1) it holds 2 stashes, and may hold 1");
  // What weight gradients need stays until they are computed; a pair holds what both need.
  EXPECT_EQ(faultIn("0F0,0I0,0F1,0W0,0B1\n", 1),
            "rank 0: at 0F1 (stage 0, micro-batch 1) it holds 2 stashes, and may hold 1");
  EXPECT_EQ(faultIn("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n", 2), "");
  EXPECT_THAT(faultIn("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n", 1), HasSubstr("holds 2 stashes"));
  EXPECT_THAT(peakStashes(readCsv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "mine")), ElementsAre(2, 1));
}

TEST(Check, NamesTheEntriesWithTheMostStashes) {
  auto peakOf = [](const char *row) {
    StashPeak peak = stashPeak(readCsv(row, "mine").ranks[0]);
    std::string text = std::to_string(peak.stashes);
    for (const Entry &entry : peak.entries)
      text += " " + textOf(entry);
    return text;
  };
  // A stash is there from the beginning of its forward pass to the end of its weight gradients.
  EXPECT_EQ(peakOf("0F0,0F1,0B0,0F2,0B1,0B2\n"), "2 0F1 0B0 0F2 0B1");
  EXPECT_EQ(peakOf("0F0,0I0,0W0,0F1,0I1,0F2,0W1,0I2,0W2\n"), "2 0F2 0W1");
  EXPECT_EQ(peakOf("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n"), "2 0F1");
  EXPECT_EQ(stashPeak({}).stashes, 0);
  // Where steps overlap, some are there before the list.
  EXPECT_EQ(stashPeak(readCsv("0B0,0F0\n", "mine").ranks[0], /*held=*/3).stashes, 3);
  EXPECT_EQ(stashPeak(readCsv("0F0,0B0\n", "mine").ranks[0], /*held=*/3).stashes, 4);
}

TEST(Check, NamesWeightGradientsOutOfOrder) {
  EXPECT_EQ(findWeightsOutOfOrder(readCsv("0F0,0F1,0I0,0I1,0W1,0W0\n", "mine")),
            "rank 0: 0W0 (stage 0, micro-batch 0) adds its weight gradients after 0W1, not in ascending order of "
            "micro-batches");
  EXPECT_THAT(findWeightsOutOfOrder(readCsv("0F0,0F1,0B1,0B0\n", "mine")), HasSubstr("after 0B1"));
  EXPECT_EQ(findWeightsOutOfOrder(readCsv("0F1,0F0,0I1,0B0,0W1\n", "mine")), "") << "the order of others is free";
}

TEST(Check, ExplainsTimetablesThatWereChanged) {
  Timetable timetable = generate("zbv", {4, 2, 8});
  std::swap(timetable.ranks[3][0], timetable.ranks[3][1]); // 4F0 before 3F0
  EXPECT_EQ(findFault(timetable), "rank 3: 4F0 (stage 4, micro-batch 0) comes before 3F0, which it needs");
  timetable = generate("zbv", {4, 2, 8});
  timetable.ranks[2][0].microBatch = 8;
  EXPECT_EQ(findFault(timetable),
            "rank 2: 2F8 (stage 2, micro-batch 8) has a micro-batch that is not there; there are 8");
  timetable.ranks[2][0] = {Kind::Forward, false, 8, 0};
  EXPECT_EQ(findFault(timetable), "rank 2: 8F0 (stage 8, micro-batch 0) has a stage that is not there; there are 8");
}

} // namespace
} // namespace dtc::timetables
