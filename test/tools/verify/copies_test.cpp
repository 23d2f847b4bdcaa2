// Copies, in parallel with launches and in order with them, and memory of the host.
#include "test/tools/verify/command_lists.h"

using testing::Each;

namespace dtc::verify {
namespace {

TEST_F(CommandLists, WhatWasMovedToTheHostComesBack) {
  uint64_t host = addHost();
  copy(x, host, 1);
  wait(1);
  twice(x, x);
  copy(host, y); // in the order of launches
  copy(x, host, 2);
  wait(2);
  copy(host, z, 3);
  wait(3);
  ASSERT_EQ(run(), "");
  for (int64_t rank : {0, 1}) {
    double first = 1 + 10 * static_cast<double>(rank);
    EXPECT_THAT(read(rank, 1), ElementsAre(first, first + 1));
    EXPECT_THAT(read(rank, 2), ElementsAre(2 * first, 2 * first + 2, IsNan(), IsNan()));
  }
}

TEST_F(CommandLists, MemoryOfTheHostThatNothingWroteIsNaN) {
  copy(addHost(), y);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 1), Each(IsNan()));
}

TEST_F(CommandLists, ACopyThatIsReadBeforeItsWaitIsNaN) {
  uint64_t host = addHost();
  copy(x, host, 1);
  copy(host, y); // too early
  copy(x, z, 2);
  twice(z, z + 8); // likewise
  wait(1);
  wait(2);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 1), Each(IsNan()));
  EXPECT_THAT(read(0, 2), ElementsAre(1, 2, IsNan(), IsNan()));
}

TEST_F(CommandLists, WritingTheSourceOfACopyUnderWayIsAFault) {
  copy(x, addHost(), 1);
  twice(x, x);
  wait(1);
  EXPECT_THAT(run(), AllOf(HasSubstr("rank 0, list 'micro', command 2"),
                           HasSubstr("the source of the copy of 2 f32 to the host changed while it was under way")));
}

TEST_F(CommandLists, WritingTheTargetOfACopyUnderWayIsAFault) {
  uint64_t host = addHost();
  copy(x, host);
  copy(host, y, 1);
  twice(x, y);
  wait(1);
  EXPECT_THAT(run(), HasSubstr("destination of the copy of 2 f32 from the host was written while it was under way"));
}

TEST_F(CommandLists, ACopyHasAWaitAndAToken) {
  copy(x, y, 1);
  EXPECT_THAT(run(), HasSubstr("rank 0 never waits for the copy of 2 f32 that it starts at rank 0, list 'micro'"));
  start(abi::Collective::ALL_REDUCE, z, z, 1);
  EXPECT_THAT(run(), HasSubstr("starts the all-reduce of v1 over tp with the token of the copy of 2 f32, which has not "
                               "been waited for"));
  list().mutable_commands()->SwapElements(0, 1);
  EXPECT_THAT(run(), HasSubstr("starts the copy of 2 f32 with the token of the all-reduce of v1"));
}

TEST_F(CommandLists, OnlyCopiesReachTheHost) {
  uint64_t host = addHost();
  twice(x, host);
  EXPECT_THAT(run(), HasSubstr("lie outside an arena of 32"));
  list().clear_commands();
  start(abi::Collective::ALL_REDUCE, host, host, 1);
  wait(1);
  EXPECT_THAT(run(), HasSubstr("lie outside an arena of 32"));
  list().clear_commands();
  copy(x, host + 16);
  EXPECT_THAT(run(), HasSubstr("lie outside an arena of 16")) << "behind its end";
}

TEST_F(CommandLists, ACopyOntoItselfIsAFault) {
  uint64_t host = addHost();
  copy(host, host + 4, 1);
  EXPECT_THAT(run(), HasSubstr("source and target of a copy overlap"));
}

// Two places of the host are in use at once, and come back in reverse order.
TEST_F(CommandLists, EachPlaceOfTheHostHasACopyOfItsOwnUnderWay) {
  uint64_t host = addHost();
  copy(x, host, 1).set_token_space(1);
  auto add = [&](const char *name) -> abi::Command & { return *test::addList(manifest, name).add_commands(); };
  abi::Wait &stored = *add("stored").mutable_wait();
  stored.set_token(1);
  stored.set_token_space(1);
  abi::Copy &back = *add("back").mutable_copy();
  back.set_input(host);
  back.set_output(y);
  back.set_elements(2);
  twice(x, x);
  add("change") = list().commands(1);
  list().mutable_commands()->RemoveLast();
  test::entriesOf(manifest).Clear();
  auto enter = [&](const char *name, uint32_t place) {
    abi::TimetableEntry &entry = test::addEntry(*manifest.mutable_roles(0), abi::stepTimetable, name);
    entry.add_places(0);
    entry.add_places(place);
  };
  for (uint32_t place : {1, 0})
    enter("micro", place); // both are under way
  for (uint32_t place : {0, 1})
    enter("stored", place);
  enter("change", 0);
  enter("micro", 1);
  enter("stored", 1);
  enter("back", 0);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 1), ElementsAre(1, 2)) << "as it was before it was changed";
  test::entriesOf(manifest).rbegin()->set_places(1, 1);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 1), ElementsAre(2, 4));
}

} // namespace
} // namespace dtc::verify
