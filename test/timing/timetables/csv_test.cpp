// PyTorch's files.
#include "test/refusal.h"
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

// Facts of zb1p_2rank_2stagep_compute.csv, which PyTorch's tests have, in its form since I and W are its letters. Rank
// 0 begins 0F0,0F1,2F0, waits, and goes on 2F1,2I0,2W0,0F2; rank 1 waits once at first. Ours is made by its rule.
TEST(Csv, OfPyTorchsInterleavedZeroBubbleIsAccepted) {
  std::string first = "0F0,0F1,2F0,,2F1,2I0,2W0,0F2,2I1,2W1,0F3,0I0,0W0,2F2,0I1,0W1,2F3,2I2,2W2",
              second = ",1F0,1F1,3F0,3I0,3F1,3I1,3W0,1F2,1I0,3W1,1F3,1I1,1W0,3F2,3I2,1W1,3F3,3I3,3W2";
  for (int micro = 4; micro <= 6; micro += 2) {
    std::string a = std::to_string(micro), b = std::to_string(micro + 1), c = std::to_string(micro - 2),
                d = std::to_string(micro - 1);
    first += ",0F" + a + ",2I" + d + ",2W" + d + ",0F" + b + ",0I" + c + ",0W" + c + ",2F" + a + ",0I" + d + ",0W" + d +
             ",2F" + b + ",2I" + a + ",2W" + a;
    second += ",1F" + a + ",1I" + c + ",3W" + d + ",1F" + b + ",1I" + d + ",1W" + c + ",3F" + a + ",3I" + a + ",1W" +
              d + ",3F" + b + ",3I" + b + ",3W" + a;
  }
  Timetable timetable = readCsv(first + ",2I7,2W7,0I6,0W6,0I7,0W7\n" + second + ",1I6,3W7,1I7,1W6,1W7\n", "zb1p");
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
