// Sends, receives and copies between roles.
#include "test/tools/verify/command_lists.h"

namespace dtc::verify {
namespace {

/// Rank 0 plays role 0, rank 1 role 1.
class Transfers : public CommandLists {
protected:
  Transfers() {
    addRole();
    for (uint32_t role : {0, 1})
      play(role);
    *manifest.add_groups()->add_axes() = tp();
  }

  /// The rank of that number plays the role of that number.
  void play(uint32_t role) {
    abi::RankRange &range = *manifest.mutable_roles(static_cast<int>(role))->add_ranks();
    range.set_first(role);
    range.set_count(1);
  }

  abi::Transfer &move(int role, bool sends, uint64_t buffer, uint32_t token) {
    abi::Command &command = *list(role).add_commands();
    abi::Transfer &transfer = sends ? *command.mutable_send() : *command.mutable_recv();
    transfer.set_shift(1);
    transfer.set_buffer(buffer);
    transfer.set_elements(2);
    transfer.set_token(token);
    transfer.set_value("v");
    return transfer;
  }
};

// Rank 1 doubles what it gets and sends it back; a copy puts it elsewhere.
TEST_F(Transfers, MoveElementsBetweenRoles) {
  move(0, true, x, 1);
  wait(1, 0);
  move(0, false, y, 2);
  wait(2, 0);
  abi::Copy &copy = *list(0).add_commands()->mutable_copy();
  copy.set_input(y);
  copy.set_output(z + 4);
  copy.set_elements(2);
  move(1, false, y, 1);
  wait(1, 1);
  twice(y, z, 1);
  move(1, true, z, 1);
  wait(1, 1);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(1, 1), ElementsAre(1, 2));
  EXPECT_THAT(read(0, 1), ElementsAre(2, 4));
  EXPECT_THAT(read(0, 2), ElementsAre(IsNan(), 2, 4, IsNan()));
}

TEST_F(Transfers, AreUnderWayUntilTheirWaits) {
  move(0, true, x, 1);
  twice(x, x);
  wait(1, 0);
  move(1, false, y, 1);
  wait(1, 1);
  EXPECT_THAT(run(), HasSubstr("source of the send of v by 1 over tp changed while it was under way"));
  list(0).mutable_commands()->SwapElements(1, 2);
  list(1).mutable_commands()->SwapElements(0, 1);
  EXPECT_THAT(run(), HasSubstr("waits for token 1, which nothing under way has"));
  list(1).mutable_commands()->SwapElements(0, 1);
  ASSERT_EQ(run(), "");
  *list(1).mutable_commands(1) = list(0).commands(2); // reads x, not y
  EXPECT_THAT(run(), HasSubstr("rank 1 never waits for the receive of v"));
}

TEST_F(Transfers, AMissingReceiveIsADeadlock) {
  move(0, true, x, 1);
  wait(1, 0);
  EXPECT_THAT(run(), AllOf(HasSubstr("deadlock"), HasSubstr("rank 0, list 'micro', command 1"),
                           HasSubstr("waits for the send of v by 1 over tp, which rank 1 does not start")));
}

TEST_F(Transfers, WhatDoesNotFitIsAFaultThatNamesBoth) {
  auto fault = [&](auto change) {
    list(0).clear_commands();
    list(1).clear_commands();
    move(0, true, x, 1);
    wait(1, 0);
    change(move(1, false, y, 1));
    wait(1, 1);
    return run();
  };
  EXPECT_EQ(fault([](abi::Transfer &) {}), "");
  EXPECT_THAT(fault([](abi::Transfer &t) { t.set_elements(1); }),
              AllOf(HasSubstr("the receive of v by 1 over tp meets the send of v by 1 over tp of rank 0, list"),
                    HasSubstr("numbers of elements 2 and 1")));
  EXPECT_THAT(fault([](abi::Transfer &t) { t.set_type(abi::I32); }), HasSubstr("element types differ"));
  EXPECT_THAT(fault([](abi::Transfer &t) { t.set_value("w"); }), HasSubstr("values v and w"));
  EXPECT_THAT(fault([](abi::Transfer &t) { t.set_shift(2); }), HasSubstr("leads to the rank itself"));
  EXPECT_THAT(fault([](abi::Transfer &t) { t.set_group(1); }), HasSubstr("group 1 of 1"));
  EXPECT_THAT(fault([&](abi::Transfer &t) {
                abi::Transfer same = t;
                *list(1).mutable_commands(0)->mutable_send() = same;
              }),
              HasSubstr("deadlock"));
  EXPECT_THAT(fault([&](abi::Transfer &) {
                list(1).clear_commands();
                start(abi::Collective::ALL_GATHER, x, z, 1, 1);
              }),
              HasSubstr("deadlock"));
}

// Both send before they receive: each waits for the other's second.
TEST_F(Transfers, SwappedOrdersAreAFault) {
  for (int role : {0, 1}) {
    move(role, true, x, 1);
    move(role, false, y, 2);
    wait(1, role);
    wait(2, role);
  }
  EXPECT_THAT(run(), HasSubstr("ranks start what they share in different orders"));
  list(1).mutable_commands()->SwapElements(0, 1);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 1), ElementsAre(11, 12));
  EXPECT_THAT(read(1, 1), ElementsAre(1, 2));
}

// In a line of three the last waits for the first, which sends to the second.
TEST_F(Transfers, ASendToAnotherPeerIsADeadlock) {
  manifest.mutable_mesh()->mutable_axes(0)->set_size(3);
  manifest.mutable_groups(0)->mutable_axes(0)->set_size(3);
  addRole();
  play(2);
  move(0, true, x, 1);
  wait(1, 0);
  move(2, false, y, 1);
  wait(1, 2);
  EXPECT_THAT(run(), AllOf(HasSubstr("rank 0, list 'micro', command 1 (h.0.mlp) waits for the send"),
                           HasSubstr("which rank 1 does not start"), HasSubstr("which rank 0 does not start")));
  list(0).mutable_commands(0)->mutable_send()->set_shift(2);
  EXPECT_EQ(run(), "");
}

TEST_F(Transfers, ACopyOverItselfIsAFault) {
  abi::Copy &copy = *list(0).add_commands()->mutable_copy();
  copy.set_input(x);
  copy.set_output(x + 4);
  copy.set_elements(2);
  EXPECT_THAT(run(), HasSubstr("source and target of a copy overlap"));
}

} // namespace
} // namespace dtc::verify
