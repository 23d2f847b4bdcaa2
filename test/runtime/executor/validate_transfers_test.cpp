// Sends and receives that do not match.
#include "test/runtime/executor/hostile.h"

#include <functional>

namespace dtc {
namespace {

using namespace test;
using testing::HasSubstr;

/// Ranks 0 and 1 (dp = 0) send to 2 and 3 (dp = 1), in roles of their own.
class ValidateTransferTest : public testing::Test {
protected:
  ValidateTransferTest() {
    abi::Role &first = *manifest.mutable_roles(0);
    first.set_name("first");
    abi::Role second = first;
    second.set_name("second");
    addRanks(first, 0, 2);
    addRanks(second, 2, 2);
    abi::CommandList turn = list(manifest, "turn");
    turn.set_name("turn of the second");
    *manifest.add_lists() = turn;
    *manifest.add_roles() = second;
    entriesOf(manifest, abi::stepTimetable, 1).Mutable(2)->set_list(turn.name());
    add(0, true, 1);
    add(1, false, -1);
  }

  /// At the end of the role's list of the update.
  abi::Transfer &add(int role, bool sends, int64_t shift) {
    abi::CommandList &turn = list(manifest, turnOf(role));
    abi::Command &command = *turn.add_commands();
    abi::Transfer &transfer = sends ? *command.mutable_send() : *command.mutable_recv();
    transfer.set_shift(shift);
    transfer.set_elements(4);
    transfer.set_buffer(tensor(manifest, "table.gradient").address());
    transfer.set_token(100 + static_cast<uint32_t>(turn.commands_size()));
    transfer.set_value("v");
    turn.add_commands()->mutable_wait()->set_token(transfer.token());
    return transfer;
  }
  static const char *turnOf(int role) { return role == 0 ? "turn" : "turn of the second"; }
  abi::Transfer &ofRole(int role) {
    for (abi::Command &command : *list(manifest, turnOf(role)).mutable_commands())
      if (command.has_send() || command.has_recv())
        return command.has_send() ? *command.mutable_send() : *command.mutable_recv();
    throw std::logic_error("none");
  }
  std::string changed(int role, const std::function<void(abi::Transfer &)> &change) {
    Manifest before = manifest;
    change(ofRole(role));
    std::string refusal = refusalOf(manifest);
    manifest = before;
    return refusal;
  }

  Manifest manifest = program();
};

TEST_F(ValidateTransferTest, WhatOneSendsTheOtherReceives) {
  ASSERT_EQ(manifest.groups(0).axes(0).axis(), "dp");
  EXPECT_EQ(refusalOf(manifest), "accepted");
  EXPECT_EQ(changed(0, [](abi::Transfer &t) { t.set_shift(-3); }), "accepted") << "cyclically";
  EXPECT_THAT(changed(0, [](abi::Transfer &t) { t.set_elements(3); }),
              HasSubstr("in its step role 'first' sends 3 elements of f32 ('v') to role 'second', which receives 4 of "
                        "f32"));
  EXPECT_THAT(changed(1, [](abi::Transfer &t) { t.set_type(abi::I32); }), HasSubstr("receives 4 of i32 ('v')"));
  EXPECT_THAT(changed(0, [](abi::Transfer &t) { t.set_shift(2); }), HasSubstr("which leads to the rank itself"));
  EXPECT_THAT(changed(0, [](abi::Transfer &t) { t.set_group(7); }), HasSubstr("the group does not exist"));
  EXPECT_THAT(changed(0, [](abi::Transfer &t) { t.set_type(abi::DataType(9)); }), HasSubstr("unknown type"));
  EXPECT_THAT(changed(0, [](abi::Transfer &t) { t.set_elements(-1); }), HasSubstr("a negative extent"));
  EXPECT_THAT(changed(0, [&](abi::Transfer &t) { t.set_buffer(manifest.roles(0).arena_bytes() - 8); }),
              HasSubstr("what is sent at byte"));
  EXPECT_THAT(changed(1, [&](abi::Transfer &t) { t.set_buffer(manifest.roles(0).arena_bytes() - 8); }),
              HasSubstr("what is received at byte"));
  EXPECT_THAT(changed(1, [](abi::Transfer &t) { t.set_token(5); }), HasSubstr("waits for"));
}

TEST_F(ValidateTransferTest, WhatIsSentLiesInTheSharedPart) {
  abi::Role &first = *manifest.mutable_roles(0);
  first.set_shared_begin(first.arena_bytes());
  first.mutable_spaces(0)->set_kind(abi::Space::PRIVATE);
  for (const char *name : {"begin", "go_on", "join", "look", "turn"})
    list(manifest, name).clear_commands();
  add(0, true, 1);
  EXPECT_THAT(refusalOf(manifest), HasSubstr("what is sent lies in space 'space 0', which peers do not see"));
}

TEST_F(ValidateTransferTest, WhatIsSentAndReceivedLiesInTheArena) {
  for (abi::Role &role : *manifest.mutable_roles()) {
    role.set_host_bytes(64);
    addSpace(role, abi::Space::HOST, 0, 64);
  }
  auto toHost = [](abi::Transfer &transfer) { transfer.set_buffer(abi::addressOf(1, 0)); };
  EXPECT_EQ(refusalOf(manifest), "accepted");
  EXPECT_THAT(changed(0, toHost), HasSubstr("what is sent lies in space 'space 1' of the host's memory"));
  EXPECT_THAT(changed(1, toHost), HasSubstr("what is received lies in space 'space 1' of the host's memory"));
}

TEST_F(ValidateTransferTest, AMissingReceiveAndOneOfAnotherRankAreRefused) {
  add(0, true, 1);
  EXPECT_THAT(refusalOf(manifest), HasSubstr("role 'first' sends 2 times to role 'second', which receives 1 times"));
  add(1, false, -1).set_group(1); // of all four ranks, where the one before is another
  EXPECT_THAT(refusalOf(manifest), HasSubstr("which receives"));
}

TEST_F(ValidateTransferTest, AReceiveThatNobodySendsIsRefused) {
  add(0, false, 1);
  EXPECT_THAT(refusalOf(manifest), HasSubstr("role 'second' sends 0 times to role 'first', which receives 1 times"));
}

TEST_F(ValidateTransferTest, EachEntryOfTheTimetableCounts) {
  addEntry(*manifest.mutable_roles(0), abi::stepTimetable, turnOf(0));
  EXPECT_THAT(refusalOf(manifest), HasSubstr("sends 2 times to role 'second', which receives 1"));
  addEntry(*manifest.mutable_roles(1), abi::stepTimetable, turnOf(1));
  EXPECT_EQ(refusalOf(manifest), "accepted");
  addEntry(*manifest.mutable_roles(0), abi::refreshTimetable, turnOf(0));
  EXPECT_THAT(refusalOf(manifest), HasSubstr("in its refresh role 'first' sends 1 times to role 'second', which "
                                             "receives 0 times"));
  addEntry(*manifest.mutable_roles(1), abi::refreshTimetable, turnOf(1));
  EXPECT_EQ(refusalOf(manifest), "accepted");
}

} // namespace
} // namespace dtc
