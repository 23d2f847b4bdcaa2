// The rules for "redo", broken one by one. The step of micro-batches 0 and 1 begins micro-batch 0 of the next step
// behind its update.
#include "test/runtime/executor/hostile.h"

#include "runtime/abi/outputs.h"
#include "runtime/abi/tensors.h"

namespace dtc {
namespace {

using namespace test;
using abi::CommandList;
using testing::HasSubstr;

class ValidateRedoTest : public testing::Test {
protected:
  ValidateRedoTest() {
    for (auto [name, duty] : {std::pair("F", CommandList::FORWARD_PASS), std::pair("B", CommandList::BACKWARD_PASS),
                              std::pair("receive", CommandList::TRANSFER), std::pair("drop", CommandList::TRANSFER),
                              std::pair("keep", CommandList::ONCE), std::pair("update", CommandList::ONCE),
                              std::pair("exchange", CommandList::EXCHANGE), std::pair("restore", CommandList::ONCE)})
      test::addList(manifest, name, duty);
    abi::Tensor &holds = addTensor(manifest, tensor(manifest, "update_applied"));
    holds.set_name(std::string(abi::output::updateHolds.name));
    holds.set_address(grow(manifest, 64));
    for (const char *name : {"table", "table.moment"}) {
      abi::Tensor &state = tensor(manifest, name);
      uint64_t kept = grow(manifest, 64);
      copy("keep", state.address(), kept, abi::elementsOf(state));
      copy("restore", kept, state.address(), abi::elementsOf(state));
      copy("update", tensor(manifest, "table.gradient").address(), state.address(), abi::elementsOf(state));
      addresses.push_back(state.address());
      keptAt.push_back(kept);
    }
    received = grow(manifest, 64);
    abi::Role &role = *manifest.mutable_roles(0);
    uint64_t stash = abi::addressOf(addSpace(role, abi::Space::REGISTERED, role.arena_bytes(), 64, 2), 0);
    role.set_arena_bytes(role.arena_bytes() + 128);
    copy("F", addresses[0], stash, 2);
    copy("B", stash, tensor(manifest, "table.gradient").address(), 2);
    copy("exchange", tensor(manifest, "learning_rate").address(), tensor(manifest, "loss_sum").address(), 1);
    fill(abi::stepTimetable, {"F1", "B0", "B1", "keep", "update", "F0+", "exchange"});
    fill(abi::redoTimetable, {"restore", "update", "F0+"});
  }

  abi::Copy &copy(const std::string &name, uint64_t from, uint64_t to, int64_t elements) {
    abi::Copy &copied = *list(manifest, name).add_commands()->mutable_copy();
    copied.set_input(from);
    copied.set_output(to);
    copied.set_elements(elements);
    return copied;
  }

  /// "F0+": list F on micro-batch 0 of the next step.
  void fill(std::string_view timetable, const std::vector<std::string> &plan) {
    auto &entries = entriesOf(manifest, timetable);
    entries.Clear();
    for (std::string each : plan) {
      abi::TimetableEntry &entry = *entries.Add();
      if (each.back() == '+') {
        entry.set_step(1);
        each.pop_back();
      }
      if (each.back() == '0' || each.back() == '1') {
        entry.set_micro_batch(each.back() - '0');
        setPlace(entry, static_cast<uint32_t>(entry.micro_batch()));
        each.pop_back();
      }
      entry.set_list(each);
    }
  }

  std::string refusalOfRedo(const std::vector<std::string> &plan) {
    fill(abi::redoTimetable, plan);
    return refusalOf(manifest);
  }

  Manifest manifest = program(2);
  std::vector<uint64_t> addresses, keptAt; ///< of the state, and of its copies
  uint64_t received = 0;
};

TEST_F(ValidateRedoTest, AStepMayBeUndoneAndDoneAgain) { EXPECT_EQ(refusalOf(manifest), "accepted"); }

TEST_F(ValidateRedoTest, AllStateIsRestored) {
  list(manifest, "restore").mutable_commands()->RemoveLast();
  EXPECT_THAT(refusalOf(manifest),
              HasSubstr("role 'all': its redo does not restore 'momentum_buffer of table.moment', which "
                        "a step changes before it knows whether it may"));
}

TEST_F(ValidateRedoTest, StateIsRestoredBeforeItIsRead) {
  EXPECT_THAT(
      refusalOfRedo({"F0+", "restore", "update"}),
      HasSubstr("its redo reads 'table' in list 'F' on micro-batch 0 in stage 0 (entry 0) before it is as it was"));
}

TEST_F(ValidateRedoTest, StateComesFromItsOwnCopy) {
  list(manifest, "restore").mutable_commands(0)->mutable_copy()->set_input(keptAt[1]);
  EXPECT_THAT(refusalOf(manifest), HasSubstr("its redo reads 'table' in list 'F' on micro-batch 0"));
  list(manifest, "restore").mutable_commands(0)->mutable_copy()->set_input(keptAt[0]);
  ASSERT_EQ(refusalOf(manifest), "accepted");
  fill(abi::stepTimetable, {"F1", "B0", "B1", "update", "keep", "F0+", "exchange"}); // of what the update has left
  EXPECT_THAT(refusalOf(manifest), HasSubstr("its redo reads 'table' in list 'F' on micro-batch 0"));
}

TEST_F(ValidateRedoTest, TheCopyIsLeftAlone) {
  copy("exchange", tensor(manifest, "learning_rate").address(), keptAt[1] + 4, 1);
  EXPECT_THAT(refusalOf(manifest), HasSubstr("its redo reads the copy of the state, which list 'exchange' in stage 0 "
                                             "(entry 6) of its step has written over"));
}

TEST_F(ValidateRedoTest, GradientsAndWhatIsToldAreLeftAlone) {
  copy("F", addresses[0], tensor(manifest, "table.gradient").address(), 1);
  EXPECT_THAT(refusalOf(manifest),
              HasSubstr("its redo reads the gradient of 'table.gradient', which list 'F' on micro-batch "
                        "0 in stage 0 (entry 5) of its step has written over"));
  list(manifest, "F").mutable_commands()->RemoveLast();
  copy("restore", tensor(manifest, "learning_rate").address(), tensor(manifest, "loss_sum").address(), 1);
  EXPECT_THAT(refusalOf(manifest),
              HasSubstr("its redo reads the output 'loss_sum', which list 'restore' in stage 0 (entry "
                        "0) of its redo has written over"));
}

TEST_F(ValidateRedoTest, PassesRunAgain) {
  EXPECT_THAT(
      refusalOfRedo({"restore", "update"}),
      HasSubstr("its redo does not run list 'F' on micro-batch 0 in stage 0 (entry 5) again, which has computed "
                "with an update that is undone"));
  EXPECT_THAT(
      refusalOfRedo({"restore", "update", "F0+", "F1+"}),
      HasSubstr("its step is redone with list 'F' on micro-batch 1 in stage 0 (entry 3), and only forward passes "
                "that have run can run again"));
  EXPECT_THAT(refusalOfRedo({"restore", "update", "F0+", "B0+"}), HasSubstr("its step is redone with list 'B'"));
}

// What F0 has begun to receive for F1 is under way behind the step; a redo waits for it and begins it anew.
TEST_F(ValidateRedoTest, WhatIsUnderWayIsDropped) {
  abi::Copy &begun = copy("receive", tensor(manifest, "learning_rate").address(), received, 1); // as a receive does
  begun.set_token(50);
  list(manifest, "drop").add_commands()->mutable_wait()->set_token(50);
  list(manifest, "F").add_commands()->mutable_wait()->set_token(50);
  list(manifest, "F").mutable_commands()->SwapElements(0, 1);
  fill(abi::stepTimetable, {"F1", "B0", "B1", "keep", "update", "receive0+", "F0+", "receive1+", "exchange"});
  EXPECT_EQ(refusalOfRedo({"drop1+", "restore", "update", "receive0+", "F0+", "receive1+"}), "accepted");
  EXPECT_THAT(refusalOfRedo({"restore", "update", "receive0+", "F0+", "receive1+"}),
              HasSubstr("its step runs list 'receive', which starts a command with the pending token 50"));
  EXPECT_THAT(refusalOfRedo({"drop1+", "restore", "update", "receive0+", "F0+"}),
              HasSubstr("its step runs list 'F', which waits for a command that was not started, of token 50"));
}

// A rank that begins nothing early drops what others have sent it.
TEST_F(ValidateRedoTest, WhatOthersHaveBegunIsDropped) {
  copy("receive", tensor(manifest, "learning_rate").address(), received, 1).set_token(50);
  list(manifest, "drop").add_commands()->mutable_wait()->set_token(50);
  fill(abi::stepTimetable, {"F0", "F1", "B0", "B1", "keep", "update", "exchange"});
  EXPECT_EQ(refusalOfRedo({"receive0+", "drop0+", "restore", "update"}), "accepted");
  EXPECT_THAT(refusalOfRedo({"receive0+", "restore", "update"}),
              HasSubstr("its step runs list 'receive', which starts a command with the pending token 50"));
}

TEST_F(ValidateRedoTest, TheHostKnowsWhetherItIsNeeded) {
  auto &tensors = *manifest.mutable_roles(0)->mutable_tensors();
  tensors.RemoveLast();
  EXPECT_THAT(
      refusalOf(manifest),
      HasSubstr("role 'all' has a timetable 'redo' without the output 'update_holds', which says whether it is"));
}

TEST_F(ValidateRedoTest, AnOutputAloneRedoesNothing) {
  entriesOf(manifest, abi::redoTimetable).Clear();
  EXPECT_THAT(
      refusalOf(manifest),
      HasSubstr("role 'all' has no timetable 'redo' and has the output 'update_holds', which says whether it is"));
}

} // namespace
} // namespace dtc
