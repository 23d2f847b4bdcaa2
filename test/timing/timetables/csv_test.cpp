// PyTorch's files.
#include "test/refusal.h"
#include "test/timing/timetables/published.h"
#include "timing/timetables/check.h"
#include "timing/timetables/csv.h"
#include "timing/timetables/named.h"
#include "timing/timetables/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtc::timetables {
namespace {

using testing::ElementsAre;

std::string problemOf(std::string_view csv) {
  return test::refusalOf([&] { readCsv(csv, "mine.csv"); });
}

TEST(Csv, IsReadAsItIsWritten) {
  for (const Named &named : allNamed())
    for (int32_t micro : {1, 4, 10}) {
      Shape shape{4, named.leastPerRank, micro};
      if (!findMisfit(named, shape).empty())
        continue;
      Timetable timetable = generate(named, shape), read = readCsv(writeCsv(timetable), "read");
      EXPECT_EQ(read.ranks, timetable.ranks) << named.name;
      EXPECT_EQ(read.rankOf, timetable.rankOf) << named.name;
      EXPECT_EQ(read.microBatches, micro);
    }
}

TEST(Csv, MayHaveEmptyCellsSpacesAndQuotes) {
  Timetable timetable = readCsv(",0F0, 0F1 ,,\"(0F2;0B0)OVERLAP_F_B\",0I1,0W1,\r\n1F0,,\n\n\n", "mine.csv");
  using enum Kind;
  ASSERT_EQ(timetable.ranks.size(), 2U);
  EXPECT_THAT(timetable.ranks[0],
              ElementsAre(Entry{Forward, false, 0, 0}, Entry{Forward, false, 0, 1}, Entry{Forward, true, 0, 2},
                          Entry{Backward, false, 0, 0}, Entry{BackwardInput, false, 0, 1},
                          Entry{BackwardWeight, false, 0, 1}));
  EXPECT_THAT(timetable.rankOf, ElementsAre(0, 1));
  EXPECT_EQ(timetable.microBatches, 3);
}

TEST(Csv, OfPyTorchsInterleavedZeroBubbleIsAccepted) {
  Timetable timetable = readCsv(test::interleavedZeroBubbleOfPyTorch(), "zb1p");
  EXPECT_EQ(findFault(timetable), "");
  EXPECT_EQ(findWeightsOutOfOrder(timetable), "");
  EXPECT_EQ(timetable.stages(), 4);
  EXPECT_EQ(timetable.microBatches, 8);
  EXPECT_EQ(countEntries(timetable), 96U);
  EXPECT_THAT(timetable.rankOf, ElementsAre(0, 1, 0, 1));
  EXPECT_DOUBLE_EQ(simulate(timetable, equalCosts(4)).meanWork(), 48);
}

TEST(Csv, NamesRowColumnAndCellOfAMistake) {
  EXPECT_EQ(problemOf("0F0,0B0\n1F0,1X0\n"),
            "mine.csv: row 2, column 2: '1X0': an entry is a stage, one of F, B, I and W, and a micro-batch, as 0F3");
  EXPECT_EQ(problemOf("0F0,,F1\n"), "mine.csv: row 1, column 3: 'F1': an entry is a stage, a letter and a micro-batch, "
                                    "as 0F3, with numbers below 1000000");
  for (std::string cell : {"0F", "0F0x", "-1F0", "99999999999F0", "0F1000000", "F", "7", "0FB0", "0f0"})
    EXPECT_THAT(problemOf("0B0," + cell + "\n"), testing::StartsWith("mine.csv: row 1, column 2: '" + cell + "': "));
  EXPECT_EQ(problemOf("0F0,0SEND_F0\n"), "mine.csv: row 1, column 2: '0SEND_F0': it is communication, which follows "
                                         "from the other entries: leave it out");
  for (std::string cell : {"(0F7;7B3)", "(0F7;7B3", "(0F7)OVERLAP_F_B", "(0F7;7B3;1F1)OVERLAP_F_B", "(0F7;7B3)OVERLAP"})
    EXPECT_THAT(problemOf(cell + "\n"), testing::EndsWith("two co-scheduled entries are written (0F7;7B3)OVERLAP_F_B"));
  EXPECT_THAT(problemOf("(0F7;7Q3)OVERLAP_F_B\n"), testing::HasSubstr("column 1: '(0F7;7Q3)OVERLAP_F_B': an entry is"));
  EXPECT_EQ(problemOf("0F0\n\n1F0\n"), "mine.csv: row 2 is empty, and there are rows behind it: each row is a rank");
  EXPECT_EQ(problemOf("\n\n"), "mine.csv: there are no entries");
  EXPECT_EQ(problemOf(""), "mine.csv: there are no entries");
  EXPECT_THAT(problemOf(std::string(500, 'x')), testing::HasSubstr("xxx...'"));
}

} // namespace
} // namespace dtc::timetables
