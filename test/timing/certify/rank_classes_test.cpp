#include "timing/certify/rank_classes.h"

#include "test/timing/certify/hand_written.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtc::test {
namespace {

using testing::ElementsAre;

std::vector<uint32_t> classesOf(const abi::Manifest &manifest) {
  std::vector<std::set<timing::Way>> ways;
  for (const abi::Role &role : manifest.roles())
    ways.push_back(timing::waysOf(manifest, role));
  return timing::classify(manifest, Mesh(manifest.mesh()), ways).ofRanks;
}

TEST(RankClasses, AreRolesWhereAllMeetAlike) {
  HandProgram program(6);
  program.addRole("odd", {1, 3, 5});
  program.addRole("even", {0, 2, 4});
  EXPECT_THAT(classesOf(program.manifest), ElementsAre(0, 1, 0, 1, 0, 1));
  program.list("sum", "sum x");
  for (abi::Role &role : *program.manifest.mutable_roles())
    addEntry(role, abi::stepTimetable, "sum");
  EXPECT_THAT(classesOf(program.manifest), ElementsAre(0, 1, 0, 1, 0, 1));
}

// The middle of a line plays one role, but each of its ranks has another distance from the ends.
TEST(RankClasses, TellRanksApartByWhomTheyMeet) {
  HandProgram program(6);
  program.list("first", "send x 1, wait x", 0);
  program.list("middle", "recv x 0, wait x, send x 2, wait x", 1);
  program.list("last", "recv x 4, wait x", 5);
  addEntry(program.addRole("first", {0}), abi::stepTimetable, "first");
  addEntry(program.addRole("middle", {1, 2, 3, 4}), abi::stepTimetable, "middle");
  addEntry(program.addRole("last", {5}), abi::stepTimetable, "last");
  EXPECT_THAT(classesOf(program.manifest), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(refusalOf(program.manifest), "");
}

TEST(RankClasses, OfALongRingAreToldInPart) {
  HandProgram program(1000);
  program.list("all", "send x 1, recv y -1, wait x, wait y", 0);
  addEntry(program.addRole("all", {}), abi::stepTimetable, "all");
  std::string refusal = refusalOf(program.manifest);
  EXPECT_THAT(refusal,
              testing::StartsWith("its step can hang: rank 0 waits in list 'all' (command 2) for the send of 'x' "
                                  "to rank 1, which rank 1 has on channel 0 behind the send of 'x' to rank 2"));
  EXPECT_THAT(refusal, testing::EndsWith(", and so on through 56 more at least"));
}

// A ring of one role is one class, and its cycle shows all the same.
TEST(RankClasses, OfARingAreOne) {
  HandProgram program(5);
  program.list("all", "send x 1, recv y -1, wait x, wait y", 0);
  program.addRole("all", {0, 1, 2, 3, 4});
  addEntry(*program.manifest.mutable_roles(0), abi::stepTimetable, "all");
  EXPECT_THAT(classesOf(program.manifest), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_EQ(refusalOf(program.manifest),
            "its step can hang: rank 0 waits in list 'all' (command 2) for the send of 'x' to rank 1, which rank 1 has "
            "on channel 0 behind the send of 'x' to rank 2 that it starts in list 'all' (command 0), which rank 2 has "
            "on channel 0 behind the send of 'x' to rank 3 that it starts in list 'all' (command 0), which rank 3 has "
            "on channel 0 behind the send of 'x' to rank 4 that it starts in list 'all' (command 0), which rank 4 has "
            "on channel 0 behind the send of 'x' to rank 0 that it starts in list 'all' (command 0), which rank 0 has "
            "on channel 0 behind the send of 'x' to rank 1 that it starts in list 'all' (command 0), which rank 1 has "
            "on channel 0 behind the send of 'x' to rank 2");
}

} // namespace
} // namespace dtc::test
