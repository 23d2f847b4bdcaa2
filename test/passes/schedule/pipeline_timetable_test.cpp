// A pipeline's timetable, as a choice says it.
#include "passes/choices/PipelineTimetable.h"
#include "runtime/support/error.h"
#include "timing/timetables/check.h"

#include <gmock/gmock.h>

namespace dtc::test {
namespace {

using namespace timetables;
using testing::HasSubstr;

std::string refusalOf(std::string_view chosen, const PipelineShape &shape) {
  try {
    timetableFor(chosen, shape);
    return "accepted";
  } catch (const Error &error) {
    return error.what();
  }
}

TEST(PipelineTimetable, HasAsManyStagesAsItTakesAtLeast) {
  EXPECT_EQ(timetableFor("1f1b", {.ranks = 4, .microBatches = 8}).stages(), 4);
  EXPECT_EQ(timetableFor("interleaved", {.ranks = 4, .microBatches = 8}).stages(), 8);
  EXPECT_EQ(timetableFor("interleaved", {.ranks = 4, .stages = 12, .microBatches = 8}).stages(), 12);
  EXPECT_THAT(timetableFor("zbv", {.ranks = 2, .microBatches = 8}).rankOf, testing::ElementsAre(0, 1, 1, 0));
}

TEST(PipelineTimetable, IsRefusedWhereThereIsNoneOfThatShape) {
  EXPECT_THAT(refusalOf("fast", {.ranks = 2}), HasSubstr("timetable: there is no 'fast'; there are naive, gpipe, 1f1b"));
  EXPECT_THAT(refusalOf("1f1b", {.ranks = 2, .stages = 4, .microBatches = 2}),
              HasSubstr("1f1b takes 1 stage a rank, and there are 2"));
  EXPECT_THAT(refusalOf("gpipe", {.ranks = 2, .stages = 3, .microBatches = 2}), HasSubstr("3 stages on 2 ranks"));
}

TEST(PipelineTimetable, OverlapsTheStepsOfPipedreamAlone) {
  EXPECT_TRUE(overlapsSteps("pipedream"));
  EXPECT_FALSE(overlapsSteps("1f1b"));
  EXPECT_EQ(findUnknownTimetable("pipedream"), "");
  EXPECT_EQ(findOverlapMisfit("pipedream", {.ranks = 2}), "");
  EXPECT_EQ(findOverlapMisfit("pipedream", {.ranks = 4, .stages = 4}), "");
  EXPECT_THAT(findOverlapMisfit("pipedream", {.ranks = 1}), HasSubstr("give the mesh an axis pp"));
  EXPECT_THAT(findOverlapMisfit("pipedream", {.ranks = 2, .stages = 4}), HasSubstr("there are 4 stages on 2 ranks"));
  EXPECT_THAT(findOverlapMisfit("pipedream", {.ranks = 2, .microBatches = 8}),
              HasSubstr("a step has 8 of them: set accumulation = 1"));
  EXPECT_THAT(refusalOf("pipedream", {.ranks = 2}), HasSubstr("pipedream has no step by itself"));
}

constexpr std::string_view file = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";

TEST(PipelineTimetable, MayBeAFile) {
  EXPECT_TRUE(isCsv(file));
  EXPECT_FALSE(isCsv("zbv"));
  EXPECT_EQ(timetableTitle(file), "a CSV file");
  EXPECT_EQ(timetableTitle("zbv"), "zbv");
  EXPECT_EQ(timetableFor(file, {.ranks = 2, .stages = 2, .microBatches = 2}).ranks[1].size(), 4u);
}

TEST(PipelineTimetable, OfAFileHasTheProgramsShape) {
  EXPECT_THAT(refusalOf(file, {.ranks = 4, .microBatches = 2}),
              HasSubstr("has 2 rows, one for each rank along the pipeline, and there are 4"));
  EXPECT_THAT(refusalOf(file, {.ranks = 2, .microBatches = 3}), HasSubstr("has 2 micro-batches, and there are 3"));
  EXPECT_THAT(refusalOf(file, {.ranks = 2, .stages = 4, .microBatches = 2}), HasSubstr("has 2 stages, and there are 4"));
  EXPECT_THAT(refusalOf("0F0,0B0\n1B0,1F0\n", {.ranks = 2, .microBatches = 1}), HasSubstr("1B0"));
}

// Sums would begin in the middle.
std::string outOfOrder(const char *rows) {
  return findSumsOutOfOrder(timetableFor(rows, {.ranks = 2, .microBatches = 2}));
}

TEST(PipelineTimetable, OfAFileSaysWhichSumsAreOutOfOrder) {
  EXPECT_THAT(outOfOrder("0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n"),
              HasSubstr("0B0 (stage 0, micro-batch 0) adds its weight gradients after 0B1"));
  EXPECT_THAT(outOfOrder("0F1,0F0,0B0,0B1\n1F1,1F0,1B0,1B1\n"),
              HasSubstr("1F0 (stage 1, micro-batch 0) adds its loss after 1F1"));
  EXPECT_EQ(outOfOrder("0F1,0F0,0B0,0B1\n1F0,1F1,1B0,1B1\n"), "");
  EXPECT_EQ(outOfOrder("0F0,0F1,0I1,0I0,0W0,0W1\n1F0,1F1,1I1,1I0,1W0,1W1\n"), "");
}

TEST(PipelineTimetable, SplitsWholeBackwardPassesWhereSomeAreSplit) {
  Timetable mixed = timetableFor("0F0,0F1,0I0,0W0,0B1\n1F0,1F1,1B0,1B1\n", {.ranks = 2, .microBatches = 2});
  EXPECT_TRUE(splitsBackward(mixed));
  EXPECT_FALSE(splitsBackward(timetableFor(file, {.ranks = 2, .microBatches = 2})));
  Timetable split = withSplitBackward(mixed);
  EXPECT_EQ(findFault(split), "");
  EXPECT_EQ(countEntries(split), 12u);
}

} // namespace
} // namespace dtc::test
