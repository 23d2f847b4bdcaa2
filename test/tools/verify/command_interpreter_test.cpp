// What collectives and lists compute, and what the interpreter refuses.
#include "test/tools/verify/command_lists.h"

namespace dtc::verify {
namespace {

TEST_F(CommandLists, KernelsAndCollectivesComputeWhatTheySay) {
  twice(x, y);
  start(abi::Collective::ALL_REDUCE, y, y, 1);
  wait(1);
  start(abi::Collective::ALL_GATHER, x, z, 2);
  wait(2);
  ASSERT_EQ(run(), "");
  for (int64_t rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(read(rank, 1), ElementsAre(24, 28));
    EXPECT_THAT(read(rank, 2), ElementsAre(1, 2, 11, 12));
  }
}

TEST_F(CommandLists, ReduceScatterAndAllToAllFollowTheManifestsLayout) {
  start(abi::Collective::ALL_GATHER, x, z, 1);
  wait(1);
  start(abi::Collective::REDUCE_SCATTER, z, y, 2);
  wait(2);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 1), ElementsAre(2, 4));
  EXPECT_THAT(read(1, 1), ElementsAre(22, 24));

  list().clear_commands();
  abi::Collective &exchange = start(abi::Collective::ALL_TO_ALL, x, y, 3);
  exchange.set_chunk(1);
  exchange.set_middle(1);
  wait(3);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 1), ElementsAre(1, 11));
  EXPECT_THAT(read(1, 1), ElementsAre(2, 12));
}

TEST_F(CommandLists, ABroadcastGivesAllWhatItsRootHas) {
  abi::Collective &first = start(abi::Collective::BROADCAST, x, y, 1);
  first.set_root(1);
  wait(1);
  start(abi::Collective::BROADCAST, x, x, 2);
  wait(2);
  ASSERT_EQ(run(), "");
  for (int64_t rank : {0, 1}) {
    EXPECT_THAT(read(rank, 1), ElementsAre(11, 12));
    EXPECT_THAT(read(rank, 0), ElementsAre(1, 2));
  }
}

TEST_F(CommandLists, OnlyTheRootsSourceMustStay) {
  addRole();
  for (int role : {0, 1}) {
    start(abi::Collective::BROADCAST, x, y, 1, role);
    if (role == 1)
      twice(x, x, role);
    wait(1, role);
  }
  EXPECT_EQ(run({0, 1}), "");
  EXPECT_THAT(run({1, 0}), HasSubstr("source of the broadcast of v1 over tp changed while it was under way"));
}

TEST_F(CommandLists, RootsThatDifferAreAFault) {
  addRole();
  for (int role : {0, 1}) {
    start(abi::Collective::BROADCAST, x, y, 1, role).set_root(role);
    wait(1, role);
  }
  EXPECT_THAT(run({0, 1}), HasSubstr("roots 0 and 1"));
}

TEST_F(CommandLists, MemoryThatNothingWroteIsNaN) {
  twice(y, z);
  ASSERT_EQ(run(), "");
  EXPECT_TRUE(std::isnan(read(0, 2)[0]));
}

TEST_F(CommandLists, AResultReadBeforeItsWaitIsNaN) {
  start(abi::Collective::ALL_GATHER, x, z, 1);
  twice(z, y);
  wait(1);
  ASSERT_EQ(run(), "");
  EXPECT_TRUE(std::isnan(read(0, 1)[0]));
  EXPECT_THAT(read(0, 2), ElementsAre(1, 2, 11, 12));
}

TEST_F(CommandLists, WritingTheSourceOfACollectiveUnderWayIsAFault) {
  start(abi::Collective::ALL_GATHER, x, z, 1);
  twice(x, x);
  wait(1);
  EXPECT_THAT(run(), AllOf(HasSubstr("list 'micro', command 2 (h.0.mlp)"),
                           HasSubstr("source of the all-gather of v1 over tp changed while it was under way")));
}

TEST_F(CommandLists, WritingTheDestinationOfACollectiveUnderWayIsAFault) {
  start(abi::Collective::ALL_GATHER, x, z, 1);
  twice(x, z);
  wait(1);
  EXPECT_THAT(run(), HasSubstr("destination of the all-gather of v1 over tp was written"));
}

TEST_F(CommandLists, OneWaitEndsAllPartsOfABucket) {
  twice(x, y);
  start(abi::Collective::ALL_REDUCE, x, x, 1).set_more(true);
  start(abi::Collective::ALL_REDUCE, y, y, 1);
  twice(x, z);
  wait(1);
  twice(y, z + 8);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 0), ElementsAre(12, 14));
  EXPECT_THAT(read(1, 1), ElementsAre(24, 28));
  EXPECT_TRUE(std::isnan(read(0, 2)[0])) << "read before the wait";
  EXPECT_THAT(read(0, 2)[2], 48);
}

TEST_F(CommandLists, ASecondStartOfATokenIsAPartOnlyIfTheFirstSaysSo) {
  start(abi::Collective::ALL_REDUCE, x, x, 1);
  start(abi::Collective::ALL_REDUCE, y, y, 1);
  wait(1);
  EXPECT_THAT(run(), HasSubstr("with the token of the all-reduce of v1 over tp, which has not been waited for"));
}

TEST_F(CommandLists, AStartWithoutAWaitIsAFault) {
  start(abi::Collective::ALL_GATHER, x, z, 1);
  EXPECT_THAT(run(), HasSubstr("rank 0 never waits for the all-gather of v1"));
}

TEST_F(CommandLists, AWaitWithoutAStartIsAFault) {
  wait(7);
  EXPECT_THAT(run(), HasSubstr("waits for token 7, which nothing under way has"));
}

TEST_F(CommandLists, AMissingPeerIsADeadlock) {
  addRole();
  start(abi::Collective::ALL_GATHER, x, z, 1);
  wait(1);
  EXPECT_THAT(run({0, 1}), AllOf(HasSubstr("deadlock"), HasSubstr("rank 0, list 'micro', command 1"),
                                 HasSubstr("waits for the all-gather of v1 over tp, which rank 1 does not start")));
}

TEST_F(CommandLists, CollectivesThatDoNotFitAreAFaultThatNamesBothRanks) {
  addRole();
  start(abi::Collective::ALL_REDUCE, x, y, 1);
  wait(1);
  start(abi::Collective::ALL_REDUCE, x, y, 1, 1).set_chunk(1);
  wait(1, 1);
  EXPECT_THAT(run({0, 1}), AllOf(HasSubstr("rank 1, list 'micro 2', command 0"), HasSubstr("of rank 0, list"),
                                 HasSubstr("chunk sizes 2 and 1")));
}

TEST_F(CommandLists, CollectivesInAnotherOrderAreAFault) {
  addRole();
  for (int role : {0, 1})
    for (uint32_t i : {0u, 1u}) {
      uint32_t token = role == 0 ? i : 1 - i;
      start(abi::Collective::ALL_REDUCE, token == 0 ? x : y, token == 0 ? y : z, token, role);
      wait(token, role);
    }
  EXPECT_THAT(run({0, 1}), HasSubstr("values v0 and v1"));
}

// Four ranks in a square, each with one neighbour over dp and one over tp. All start both and wait only then, so that
// messages could pass each other; but each collective is second for one of its members.
TEST_F(CommandLists, AnOrderInWhichTheRanksDifferIsADeadlock) {
  abi::Axis tpAxis = manifest.mesh().axes(0), dpAxis = tpAxis;
  dpAxis.set_name("dp");
  *manifest.mutable_mesh()->mutable_axes(0) = dpAxis;
  *manifest.mutable_mesh()->add_axes() = tpAxis;
  abi::AxisRef dp = tp();
  dp.set_axis("dp");
  *manifest.add_groups()->add_axes() = tp();
  *manifest.add_groups()->add_axes() = dp;
  manifest.mutable_groups(1)->set_channel(1);
  addRole();
  for (int role : {0, 1}) {
    uint32_t first = role; // tp before dp, or the reverse
    for (uint32_t group : {first, 1 - first}) {
      abi::Collective &call = start(abi::Collective::ALL_REDUCE, group == 0 ? x : z, group == 0 ? y : z, group, role);
      call.set_group(group);
      call.set_outer(group == 0 ? 1 : 0);
    }
    for (uint32_t token : {0u, 1u})
      wait(token, role);
  }
  EXPECT_EQ(run({0, 0, 0, 0}), "");
  EXPECT_EQ(run({1, 1, 1, 1}), "");
  EXPECT_THAT(run({0, 1, 1, 0}),
              AllOf(HasSubstr("deadlock"), HasSubstr("rank 0, list 'micro', command 2"),
                    HasSubstr("waits for the all-reduce of v0 over tp, which comes behind the all-reduce of v1 over dp "
                              "on rank 1: ranks start what they share in different orders")));
}

// What is written in one place is not in another; the first place is z's first half. Two are in progress at once.
TEST_F(CommandLists, APlaceHasMemoryAndTokensOfItsOwn) {
  abi::Role &role = *manifest.mutable_roles(0);
  role.mutable_spaces(0)->set_stride(z);
  uint32_t space = test::addSpace(role, abi::Space::REGISTERED, z, 8, 2);
  role.mutable_tensors(2)->set_address(abi::addressOf(space, 0));
  start(abi::Collective::ALL_REDUCE, x, abi::addressOf(space, 0), 1).set_token_space(space);
  abi::Wait &wait = *test::addList(manifest, "later").add_commands()->mutable_wait();
  wait.set_token(1);
  wait.set_token_space(space);
  auto &step = test::entriesOf(manifest);
  step.Clear();
  for (const char *list : {"micro", "later"})
    for (uint32_t place : {1, 0}) {
      abi::TimetableEntry &entry = test::addEntry(role, abi::stepTimetable, list);
      entry.add_places(0);
      entry.add_places(place);
    }
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 2), ElementsAre(12, 14, 12, 14));
  step.RemoveLast();
  EXPECT_THAT(run(), HasSubstr("rank 0 never waits for the all-reduce of v1 over tp that it starts at rank 0, list "
                               "'micro', command 0"));
  EXPECT_THAT(read(0, 2), ElementsAre(IsNan(), IsNan(), 12, 14));
}

// Rank 1 runs a step ahead until it has to wait; its second step starts before rank 0's first has ended.
TEST_F(CommandLists, EachRankWalksItsOwnTimetable) {
  addRole();
  start(abi::Collective::ALL_REDUCE, x, y, 1);
  wait(1);
  twice(y, x, 1);
  abi::Timetable &other = abi::timetableIn(*manifest.mutable_roles(1), abi::stepTimetable);
  *other.add_period() = other.period(0);
  other.mutable_period(0)->set_list("micro");
  other.mutable_period(1)->set_step(1);
  std::vector<std::string> entered;
  ASSERT_EQ(run({0, 1}), "");
  CommandInterpreter::Watch watch;
  watch.enter = [&](int64_t rank, const abi::TimedEntry &timed) {
    entered.push_back(std::to_string(rank) + " " + timed.entry->list() + " " + std::to_string(timed.step));
  };
  interpreter->runTimetable(abi::stepTimetable, 2, watch);
  EXPECT_THAT(entered, ElementsAre("0 micro 0", "1 micro 2 -1", "1 micro 0", "1 micro 2 0", "1 micro 1", "0 micro 1"));
}

// Of three ranks the first and the last meet.
TEST_F(CommandLists, OnlyTheMembersOfAGroupMeet) {
  manifest.mutable_mesh()->mutable_axes(0)->set_size(3);
  start(abi::Collective::ALL_REDUCE, x, y, 1);
  wait(1);
  abi::Group &group = *manifest.mutable_groups(0);
  group.mutable_axes(0)->set_size(3);
  for (uint32_t member : {0, 2})
    group.add_members(member);
  addRole();
  EXPECT_EQ(run({0, 1, 0}), "");
  EXPECT_THAT(run({0, 0, 0}), HasSubstr("the all-reduce of v1 over tp {0,2} is none of this rank's"));
}

TEST_F(CommandLists, ALaterListMayWait) {
  start(abi::Collective::ALL_REDUCE, x, y, 1);
  test::addList(manifest, "later").add_commands()->mutable_wait()->set_token(1);
  test::addEntry(*manifest.mutable_roles(0), abi::evaluationTimetable, "later");
  EXPECT_THAT(run(), HasSubstr("rank 0 never waits for the all-reduce of v1"));
  EXPECT_TRUE(std::isnan(read(0, 1)[0])) << "it is under way";
  interpreter->run("later");
  interpreter->requireAllWaited();
  EXPECT_THAT(read(1, 1), ElementsAre(12, 14));
  EXPECT_THROW(interpreter->run("later"), ProgramFault);
}

TEST_F(CommandLists, ATokenIsInUseUntilAnyListHasWaited) {
  start(abi::Collective::ALL_REDUCE, x, y, 1);
  EXPECT_THAT(run(), HasSubstr("never waits"));
  try {
    interpreter->run("micro");
    ADD_FAILURE() << "started again";
  } catch (const ProgramFault &fault) {
    EXPECT_THAT(fault.what(), HasSubstr("with the token of the all-reduce of v1 over tp, which has not been waited"));
  }
}

} // namespace
} // namespace dtc::verify
