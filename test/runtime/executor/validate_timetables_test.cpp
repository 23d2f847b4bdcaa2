// Timetables in which something comes too early, too late, twice or never. The programs are those of pipelines, with
// lists that only move what a micro-batch stashes.
#include "test/runtime/executor/hostile.h"

#include <vector>

namespace dtc {
namespace {

using namespace test;
using abi::CommandList;
using testing::AllOf;
using testing::HasSubstr;

/// What an entry does, on which micro-batch: "F0", "B0", "I0", "W0"; "U": the update. With each '+': for one step
/// later; with '|': co-scheduled with the entry before.
using Plan = std::vector<std::string>;

class ValidateTimetableTest : public testing::Test {
protected:
  static constexpr int64_t microBatches = 4;

  /// `places`: of the stash, of which micro-batch m takes place m % places.
  explicit ValidateTimetableTest(uint32_t places = microBatches) : places(places) {
    for (auto [name, duty] : {std::pair("F", CommandList::FORWARD_PASS), std::pair("B", CommandList::BACKWARD_PASS),
                              std::pair("I", CommandList::INPUT_GRADIENTS),
                              std::pair("W", CommandList::WEIGHT_GRADIENTS), std::pair("U", CommandList::ONCE)})
      test::addList(manifest, name, duty);
    abi::Role &role = *manifest.mutable_roles(0);
    stash = abi::addressOf(addSpace(role, abi::Space::REGISTERED, role.arena_bytes(), 64, places), 0);
    role.set_arena_bytes(role.arena_bytes() + 64 * places);
    gradient = tensor(manifest, "table.gradient").address();
    copy("F", tensor(manifest, "table").address(), stash);
    for (const char *each : {"B", "I"})
      copy(each, stash, gradient);
    copy("I", gradient, stash + 8);
    copy("W", stash + 8, gradient);
  }

  void copy(const char *name, uint64_t from, uint64_t to) {
    abi::Copy &moved = *list(manifest, name).add_commands()->mutable_copy();
    moved.set_input(from);
    moved.set_output(to);
    moved.set_elements(2);
  }

  void fill(google::protobuf::RepeatedPtrField<abi::TimetableEntry> &entries, const Plan &plan) const {
    entries.Clear();
    for (std::string each : plan) {
      abi::TimetableEntry &entry = *entries.Add();
      for (; each.back() == '+' || each.back() == '|'; each.pop_back())
        each.back() == '+' ? entry.set_step(entry.step() + 1) : entry.set_beside(true);
      entry.set_list(each.substr(0, 1));
      if (each.size() == 1)
        continue;
      entry.set_micro_batch(std::stoll(each.substr(1)));
      setPlace(entry, static_cast<uint32_t>(entry.micro_batch()) % places);
    }
  }

  std::string refusal(const Plan &period) {
    fill(entriesOf(manifest), period);
    return refusalOf(manifest);
  }

  uint32_t places;
  Manifest manifest = program(microBatches);
  uint64_t stash, gradient;
};

class TwoPlacesTest : public ValidateTimetableTest {
protected:
  TwoPlacesTest() : ValidateTimetableTest(2) {}
};

const Plan GPipe = {"F0", "F1", "F2", "F3", "B0", "B1", "B2", "B3", "U"};
const Plan OneForwardOneBackward = {"F0", "F1", "B0", "F2", "B1", "F3", "B2", "B3", "U"};

TEST_F(ValidateTimetableTest, PipelinesAreAccepted) {
  EXPECT_EQ(refusal(GPipe), "accepted");
  EXPECT_EQ(refusal(OneForwardOneBackward), "accepted");
  EXPECT_EQ(refusal({"F0", "I0", "F1", "W0", "I1", "F2", "W1", "I2", "W2", "F3", "I3", "W3", "U"}), "accepted");
  EXPECT_EQ(refusal({"F0", "B0", "F1", "I1", "W1", "F2", "B2", "F3", "I3", "W3", "U"}), "accepted");
}

TEST_F(TwoPlacesTest, APlaceIsTakenAgainWhenItsMicroBatchHasPassed) {
  EXPECT_EQ(refusal(OneForwardOneBackward), "accepted");
  EXPECT_THAT(refusal(GPipe),
              HasSubstr("role 'all': in its step list 'B' on micro-batch 0 in stage 0 (entry 4) reads byte 0 of "
                        "place 0 of space 'space 1', where list 'F' on micro-batch 2 in stage 0 (entry 2) has "
                        "written: the place is taken too early"));
}

TEST_F(ValidateTimetableTest, WhatNothingHasWrittenIsNotRead) {
  list(manifest, "F").clear_commands();
  EXPECT_THAT(refusal(GPipe),
              HasSubstr("in its step list 'B' on micro-batch 0 in stage 0 (entry 4) reads byte 0 of place 0 of "
                        "space 'space 1', which nothing has written"));
}

TEST_F(ValidateTimetableTest, ACountThatNothingHasWrittenIsNotRead) {
  abi::Launch counted = launch(manifest);
  counted.set_grid_count(stash + 32);
  *list(manifest, "B").add_commands()->mutable_launch() = counted;
  EXPECT_THAT(refusal(GPipe), HasSubstr("reads byte 32 of place 0 of space 'space 1', which nothing has written"));
}

// What the host fills ends where its tensor ends, whatever ranges lists read.
TEST_F(ValidateTimetableTest, BesideWhatTheHostFillsNothingIsReadUnwritten) {
  abi::Tensor filled = tensor(manifest, "learning_rate");
  filled.set_name("filled");
  filled.set_address(stash + 32);
  addTensor(manifest, filled);
  copy("B", stash + 32, gradient); // of two elements, the tensor has one
  EXPECT_THAT(refusal(GPipe), HasSubstr("reads byte 36 of place 0 of space 'space 1', which nothing has written"));
  list(manifest, "B").mutable_commands()->rbegin()->mutable_copy()->set_elements(1);
  EXPECT_EQ(refusal(GPipe), "accepted");
}

TEST_F(ValidateTimetableTest, EachPassHasItsTurn) {
  auto backwardFirst = GPipe, twice = GPipe, none = GPipe, noWeights = GPipe, early = GPipe, both = GPipe;
  std::swap(backwardFirst[3], backwardFirst[7]);
  EXPECT_THAT(refusal(backwardFirst),
              HasSubstr("its step runs list 'B' on micro-batch 3 in stage 0 (entry 3) before its turn"));
  twice.insert(twice.begin(), "F2");
  EXPECT_THAT(refusal(twice),
              HasSubstr("runs list 'F' on micro-batch 2 in stage 0 (entry 3) before its turn, after list 'F' on "
                        "micro-batch 2 in stage 0 (entry 0)"));
  twice = GPipe;
  twice.insert(twice.end() - 1, "B3");
  EXPECT_THAT(refusal(twice),
              HasSubstr("runs list 'B' on micro-batch 3 in stage 0 (entry 8) once more than there is need for, "
                        "after list 'B' on micro-batch 3 in stage 0 (entry 7)"));
  none.erase(none.begin() + 6);
  EXPECT_THAT(refusal(none),
              HasSubstr("leaves micro-batch 2 in stage 0 without its backward pass after list 'F' on micro-batch 2 "
                        "in stage 0 (entry 2)"));
  noWeights[7] = "I3";
  EXPECT_THAT(refusal(noWeights), HasSubstr("leaves micro-batch 3 in stage 0 without its backward pass"));
  early[4] = "W0";
  EXPECT_THAT(refusal(early), HasSubstr("runs list 'W' on micro-batch 0 in stage 0 (entry 4) before its turn"));
  none = {"F0", "F1", "F2", "B0", "B1", "B2", "U"};
  EXPECT_THAT(refusal(none), HasSubstr("runs 3 micro-batches of 4 in stage 0"));
}

TEST_F(ValidateTimetableTest, GradientsAddInTheOrderOfTheMicroBatches) {
  EXPECT_THAT(refusal({"F0", "F1", "F2", "F3", "B0", "B2", "B1", "B3", "U"}),
              HasSubstr("adds the gradients of list 'B' on micro-batch 1 in stage 0 (entry 6) behind those of list "
                        "'B' on micro-batch 2 in stage 0 (entry 5)"));
  EXPECT_EQ(refusal({"F3", "F1", "F0", "F2", "B0", "B1", "B2", "B3", "U"}), "accepted");
  abi::timetableIn(*manifest.mutable_roles(0), abi::stepTimetable).set_sums_by_timetable(true);
  EXPECT_EQ(refusal({"F0", "F1", "F2", "F3", "B0", "B2", "B1", "B3", "U"}), "accepted");
  EXPECT_EQ(refusal({"F3", "F1", "F0", "F2", "B0", "B1", "B2", "B3", "U"}), "accepted");
  const char *claim = "says that sums over micro-batches depend on its order, and they do not";
  EXPECT_THAT(refusal(GPipe), HasSubstr(claim));
  abi::timetableIn(*manifest.mutable_roles(0), abi::evaluationTimetable).set_sums_by_timetable(true);
  EXPECT_THAT(refusal({"F0", "F1", "F2", "F3", "B0", "B2", "B1", "B3", "U"}), HasSubstr(claim));
}

TEST_F(ValidateTimetableTest, StepsMayOverlap) {
  Plan period = {"B0", "F2", "B1", "F3", "B2", "F0+", "B3", "U", "F1+"};
  EXPECT_EQ(refusal(period), "accepted");
  Plan late = {"F0", "B0", "F2", "B1", "F3", "B2", "B3", "U", "F1+"}, none = period;
  EXPECT_EQ(refusal(late), "accepted");
  late[1] = "B0++";
  EXPECT_THAT(refusal(late), HasSubstr("runs list 'B' on micro-batch 0 in stage 0 (entry 1) before its turn"));
  none.erase(none.end() - 1);
  EXPECT_THAT(refusal(none), HasSubstr("runs list 'B' on micro-batch 1 in stage 0 (entry 2) before its turn"));
  none = period;
  none.erase(none.end() - 3);
  EXPECT_THAT(refusal(none), HasSubstr("leaves micro-batch 3 in stage 0 without its backward pass after list 'F' on "
                                       "micro-batch 3 in stage 0 (entry 3)"));
}

TEST_F(ValidateTimetableTest, OfTheNextStepsPlaceNothingIsReadForThisOne) {
  // Micro-batch 3 of one step and 3 of the next share a place.
  Plan period = {"B0", "B1", "B2", "F3+", "B3", "U", "F0+", "F1+", "F2+"};
  EXPECT_THAT(refusal(period),
              HasSubstr("where list 'F' on micro-batch 3 in stage 0 (entry 3) has written: the place is taken too "
                        "early"));
}

/// One micro-batch a step, whose stash moves on from place to place.
class TurningTest : public ValidateTimetableTest {
protected:
  TurningTest() {
    abi::Training &training = *manifest.mutable_training();
    training.set_global_batch(training.global_batch() / training.accumulation());
    training.set_accumulation(1);
  }

  /// `turns`: of each entry, in the stash's space.
  std::string refusal(const Plan &period, const std::vector<uint32_t> &turns) {
    auto &entries = entriesOf(manifest);
    fill(entries, period);
    for (size_t i = 0; i < turns.size(); ++i)
      if (turns[i] > 0)
        for (uint32_t each : {0U, turns[i]})
          entries[static_cast<int>(i)].add_turns(each);
    return refusalOf(manifest);
  }
};

TEST_F(TurningTest, EachStepUnderWayHasAPlace) {
  for (uint32_t turns : {3, 4})
    EXPECT_EQ(refusal({"F0++", "B0", "U"}, {turns, turns}), "accepted");
  EXPECT_EQ(refusal({"B0", "F0++", "U"}, {2, 2}), "accepted") << "the place is free by then";
  // In the first step F has filled both places and takes the first one again.
  EXPECT_THAT(
      refusal({"F0++", "B0", "U"}, {2, 2}),
      HasSubstr("list 'B' on micro-batch 0 in stage 0 (entry 1) reads byte 0 of place 0 of space 'space 1', "
                "where list 'F' on micro-batch 0 in stage 0 (entry 0) has written: the place is taken too early"));
  EXPECT_THAT(refusal({"F0++", "B0", "U"}, {3, 0}),
              HasSubstr("(entry 1) reads byte 0 of place 0 of space 'space 1', where"))
      << "one entry moves on and the other stays";
}

TEST_F(TurningTest, TurnsAreWithinTheirSpace) {
  EXPECT_THAT(
      refusal({"F0++", "B0", "U"}, {5, 5}),
      HasSubstr("runs list 'F' on micro-batch 0 in stage 0 (entry 0) through 5 places of space 'space 1', which "
                "has 4"));
  EXPECT_THAT(refusal({"F0++", "B0", "U"}, {4, 3}),
              HasSubstr("runs list 'B' on micro-batch 0 in stage 0 (entry 1) through 3 places of space 'space 1', and "
                        "list 'F' on micro-batch 0 in stage 0 (entry 0) through 4"));
  ASSERT_EQ(refusal({"F0++", "B0", "U"}, {3, 3}), "accepted");
  entriesOf(manifest)[0].set_places(1, 3);
  EXPECT_THAT(refusalOf(manifest),
              HasSubstr("(entry 0) from place 3 on of the 3 places of space 'space 1' that it takes turns in"));
  entriesOf(manifest)[0].set_places(1, 0);
  entriesOf(manifest)[2].add_turns(0);
  EXPECT_EQ(refusalOf(manifest), "accepted");
  for (int i = 0; i < 4; ++i)
    entriesOf(manifest)[2].add_turns(0);
  EXPECT_THAT(refusalOf(manifest), HasSubstr("through places of 5 spaces of 2"));
}

// A token under way has the place of its step: F leaves a copy under way, B of the same step waits for it.
TEST_F(TurningTest, TokensMoveOnWithTheirPlaces) {
  copy("F", stash + 16, stash + 32);
  abi::Copy &copied = *list(manifest, "F").mutable_commands()->rbegin()->mutable_copy();
  copied.set_token(50);
  copied.set_token_space(1);
  abi::Wait &wait = *list(manifest, "B").add_commands()->mutable_wait();
  wait.set_token(50);
  wait.set_token_space(1);
  copy("F", tensor(manifest, "table").address(), stash + 16);
  list(manifest, "F").mutable_commands()->SwapElements(1, 2);
  EXPECT_EQ(refusal({"F0++", "B0", "U"}, {3, 3}), "accepted");
  EXPECT_THAT(
      refusal({"F0++", "B0", "U"}, {3, 0}),
      HasSubstr("its step runs list 'B', which uses token 50 in turns of 0 steps, and another entry in turns of 3"));
}

TEST_F(ValidateTimetableTest, EntriesBesideEachOtherLeaveEachOthersMemoryAlone) {
  Plan beside = {"F0", "F1|", "F2|", "F3|", "B0", "B1", "B2", "B3", "U|"};
  EXPECT_EQ(refusal(beside), "accepted");
  beside[5] = "B1|"; // both write the gradient
  EXPECT_THAT(refusal(beside),
              HasSubstr("in its step list 'B' on micro-batch 1 in stage 0 (entry 5) cannot run beside list 'B' on "
                        "micro-batch 0 in stage 0 (entry 4): they meet in memory or tokens"));
  beside[5] = "B1";
  beside[4] = "B0|"; // reads another place than F3 writes
  EXPECT_EQ(refusal(beside), "accepted");
  Plan own = {"F0", "B0|", "F1", "B1", "F2", "B2", "F3", "B3", "U"};
  EXPECT_THAT(refusal(own),
              HasSubstr("list 'B' on micro-batch 0 in stage 0 (entry 1) cannot run beside list 'F' on micro-batch "
                        "0 in stage 0 (entry 0)"));
  EXPECT_THAT(refusal({"F0|", "B0", "F1", "B1", "F2", "B2", "F3", "B3", "U"}),
              HasSubstr("list 'F' on micro-batch 0 in stage 0 (entry 0) cannot run beside nothing"));
}

TEST_F(ValidateTimetableTest, EachPlaceHasATokenOfItsOwn) {
  for (auto [name, starts] : {std::pair("F", true), std::pair("B", false)}) {
    abi::Command command;
    if (starts) {
      abi::Collective &sum = *command.mutable_start() = collective(manifest);
      sum.set_token(50);
      sum.set_token_space(1);
      sum.set_input(stash);
      sum.set_output(stash);
      sum.set_outer(1);
      sum.set_chunk(2);
    } else {
      command.mutable_wait()->set_token(50);
      command.mutable_wait()->set_token_space(1);
    }
    *list(manifest, name).add_commands() = command;
  }
  list(manifest, "B").mutable_commands()->SwapElements(0, 1);
  EXPECT_EQ(refusal(GPipe), "accepted");
  for (auto &entry : entriesOf(manifest))
    if (entry.has_micro_batch())
      entry.set_places(1, 0);
  EXPECT_THAT(refusalOf(manifest), HasSubstr("runs list 'F', which starts a command with the pending token 50"));
  Plan late = GPipe;
  std::swap(late[7], late[8]);
  list(manifest, "U").add_commands()->mutable_wait()->set_token(50);
  EXPECT_THAT(refusal(late), HasSubstr("its token counts the places of another space elsewhere"));
}

/// F stashes, and starts to copy that to the host; S waits for it. L starts to copy it back, into the place of the
/// stash, and B waits for that. The host has a place for each micro-batch.
class OffloadTest : public TwoPlacesTest {
protected:
  OffloadTest() {
    abi::Role &role = *manifest.mutable_roles(0);
    role.set_host_bytes(64 * microBatches);
    uint64_t host = abi::addressOf(addSpace(role, abi::Space::HOST, 0, 64, microBatches), 0);
    for (const char *each : {"S", "L"})
      test::addList(manifest, each, CommandList::TRANSFER);
    start("F", stash, host, 50);
    wait("S", 50);
    start("L", host, stash, 51);
    wait("B", 51);
    list(manifest, "B").mutable_commands()->SwapElements(0, 1);
  }

  void start(const char *name, uint64_t from, uint64_t to, uint32_t token) {
    copy(name, from, to);
    abi::Copy &copied = *list(manifest, name).mutable_commands()->rbegin()->mutable_copy();
    copied.set_token(token);
    copied.set_token_space(1);
  }
  void wait(const char *name, uint32_t token) {
    abi::Wait &wait = *list(manifest, name).add_commands()->mutable_wait();
    wait.set_token(token);
    wait.set_token_space(1);
  }

  std::string refusal(const Plan &plan) {
    auto &entries = entriesOf(manifest);
    fill(entries, plan);
    for (abi::TimetableEntry &entry : entries)
      if (entry.has_micro_batch())
        entry.add_places(static_cast<uint32_t>(entry.micro_batch()));
    return refusalOf(manifest);
  }

  const Plan twoPlaces = {"F0", "F1", "S0", "F2", "S1", "F3", "S2", "L0", "S3",
                          "L1", "B0", "L2", "B1", "L3", "B2", "B3", "U"};
};

TEST_F(OffloadTest, APlaceIsTakenAgainWhenTheCopyOfItIsDone) {
  EXPECT_EQ(refusal(twoPlaces), "accepted");
  Plan early = twoPlaces;
  std::swap(early[6], early[7]); // L0 before S2
  EXPECT_THAT(refusal(early),
              HasSubstr("role 'all': in its step list 'L' on micro-batch 0 in stage 0 (entry 6) writes byte 0 of place 0 of "
                        "space 'space 1' (command 0) while what list 'F' on micro-batch 2 in stage 0 (entry 3) has "
                        "started there is under way, and is not waited for before"));
  early = twoPlaces;
  std::swap(early[2], early[3]); // F2 before S0
  EXPECT_THAT(refusal(early), HasSubstr("runs list 'F', which starts a command with the pending token 50"));
}

// Within the list that waits, the position matters.
TEST_F(OffloadTest, WhatComesBackIsReadBehindTheWait) {
  list(manifest, "B").mutable_commands()->SwapElements(0, 1);
  EXPECT_THAT(refusal(twoPlaces),
              HasSubstr("list 'B' on micro-batch 0 in stage 0 (entry 10) reads byte 0 of place 0 of space 'space 1' "
                        "(command 0) while what list 'L' on micro-batch 0 in stage 0 (entry 7) has started there is "
                        "under way"));
}

TEST_F(OffloadTest, WhatComesBackIsOfTheSameMicroBatch) {
  ASSERT_EQ(refusal(twoPlaces), "accepted");
  for (auto &entry : entriesOf(manifest))
    if (entry.list() == "L")
      entry.set_places(2, static_cast<uint32_t>(entry.micro_batch() + 1) % microBatches);
  EXPECT_THAT(refusalOf(manifest), HasSubstr("list 'L' on micro-batch 0 in stage 0 (entry 7) reads byte 0 of place 1 of "
                                             "space 'space 2', where list 'F' on micro-batch 1 in stage 0 (entry 1) "
                                             "has written"));
}

// Reading alone while another list reads, and work in another place, is valid.
TEST_F(OffloadTest, WhatIsUnderWayMayBeReadWhereItIsRead) {
  copy("S", stash, gradient);
  list(manifest, "S").mutable_commands()->SwapElements(0, 1);
  EXPECT_EQ(refusal(twoPlaces), "accepted");
  copy("S", gradient, stash);
  EXPECT_EQ(refusal(twoPlaces), "accepted") << "behind the wait";
  list(manifest, "S").mutable_commands()->SwapElements(1, 2);
  EXPECT_THAT(refusal(twoPlaces), HasSubstr("list 'S' on micro-batch 0 in stage 0 (entry 2) writes byte 0 of place 0"));
}

TEST_F(ValidateTimetableTest, StagesOfARolePassOnTheirOwn) {
  manifest.add_stages();
  Plan both = {"F0", "F1", "F2", "F3", "B0", "B1", "B2", "B3"};
  EXPECT_EQ(refusal(GPipe), "accepted");
  auto &entries = entriesOf(manifest);
  for (int i = 0; i < 8; ++i) {
    abi::TimetableEntry second = entries[i];
    second.set_stage(1);
    *entries.Add() = second;
  }
  EXPECT_EQ(refusalOf(manifest), "accepted");
  entries[entries.size() - 1].set_stage(0);
  EXPECT_THAT(refusalOf(manifest), HasSubstr("runs list 'B' on micro-batch 3 in stage 0 (entry 16) once more"));
  entries.RemoveLast();
  EXPECT_THAT(refusalOf(manifest), HasSubstr("leaves micro-batch 3 in stage 1 without its backward pass"));
}

} // namespace
} // namespace dtc
