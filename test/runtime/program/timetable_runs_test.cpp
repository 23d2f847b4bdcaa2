// Whole runs of programs whose timetables, places and inputs differ from the compiler's: a run does what the manifest
// says.
#include "test/runtime/program/bringing.h"
#include "test/runtime/program/manifests.h"
#include "test/runtime/program/training.h"

#include <map>

namespace dtc::test {
namespace {

using testing::HasSubstr;

// Two micro-batches at once, of which the second adds to the first, and the sums over ranks in their own list.
TEST_F(TrainingTest, AnEvaluationRunsWhatItsTimetableSays) {
  dtc::abi::Manifest manifest = toyManifest({.dp = 2});
  train(writeToy("one", manifest), 2, "a");
  dtc::abi::Role &role = *manifest.mutable_roles(0);
  dtc::abi::CommandList &look = listIn(manifest, "look");
  dtc::abi::CommandList join = look;
  join.mutable_commands()->DeleteSubrange(0, 1);
  look.mutable_commands()->DeleteSubrange(1, look.commands_size() - 1);
  dtc::abi::CommandList goOn = look;
  goOn.set_name("look_on");
  goOn.mutable_commands(0)->mutable_launch()->mutable_scalars(3)->set_value(0); // adds to the sums
  join.set_name("look_join");
  join.set_duty(dtc::abi::CommandList::ONCE);
  *manifest.add_lists() = goOn;
  *manifest.add_lists() = join;
  addEntry(role, dtc::abi::evaluationTimetable, "look_on").set_micro_batch(1);
  addEntry(role, dtc::abi::evaluationTimetable, "look_join");
  std::string two = writeToy("two", manifest), before = output;
  EXPECT_EQ(
      run(two, 2, {"--out", directory / "b", "--eval-only", "--weights", directory / "a/checkpoints/step-000010"}), 0);
  auto lossIn = [](const std::string &text) {
    return text.substr(std::min(text.find("held-out loss "), text.size()), 20);
  };
  EXPECT_EQ(lossIn(output), lossIn(before));
}

// The gradient waits in the second place while something else is written to the first.
TEST_F(TrainingTest, AStepRunsItsEntriesInTheirPlaces) {
  dtc::abi::Manifest manifest = toyManifest({});
  std::vector<std::string> expected = train(writeToy("plain", manifest), 1, "a");
  dtc::abi::Role &role = *manifest.mutable_roles(0);
  auto addressOf = [&](const char *name) {
    return std::ranges::find(role.tensors(), name, [](const dtc::abi::Tensor &tensor) { return tensor.name(); })
        ->address();
  };
  uint64_t gradient = addressOf("table.gradient"), moment = addressOf("table.moment");
  uint64_t place = dtc::abi::addressOf(addSpace(role, dtc::abi::Space::REGISTERED, role.arena_bytes(), 64, 2), 0);
  role.set_arena_bytes(role.arena_bytes() + 128);
  auto &entries = entriesOf(manifest);
  google::protobuf::RepeatedPtrField<dtc::abi::TimetableEntry> step;
  *step.Add() = entries[0];
  auto copy = [&](const char *name, uint64_t from, uint64_t to, uint32_t number) {
    dtc::abi::Copy &command = *addList(manifest, name).add_commands()->mutable_copy();
    command.set_input(from);
    command.set_output(to);
    command.set_elements(5);
    step.Add()->set_list(name);
    for (uint32_t each : {0U, number})
      step.rbegin()->add_places(each);
  };
  copy("keep", gradient, place, 1);
  copy("spoil", moment, place, 0);
  copy("lose", moment, gradient, 0);
  copy("take", place, gradient, 1);
  for (int entry = 1; entry < entries.size(); ++entry)
    *step.Add() = entries[entry];
  entries = step;
  EXPECT_EQ(train(writeToy("slots", manifest), 1, "b"), expected);
}

// Tokens and targets of a micro-batch have their own places, filled while others wait to be read.
TEST_F(TrainingTest, InputsAreFilledInThePlaceOfTheEntry) {
  dtc::abi::Manifest manifest = toyManifest({.accumulation = 2});
  std::vector<std::string> expected = train(writeToy("plain", manifest), 1, "a");
  dtc::abi::Role &role = *manifest.mutable_roles(0);
  uint32_t space = addSpace(role, dtc::abi::Space::REGISTERED, role.arena_bytes(), 512, 3);
  role.set_arena_bytes(role.arena_bytes() + 3 * 512);
  std::map<uint64_t, uint64_t> moved; // old address to new one
  for (dtc::abi::Tensor &tensor : *role.mutable_tensors())
    if (tensor.name() == "tokens" || tensor.name() == "targets") {
      uint64_t place = dtc::abi::addressOf(space, 256 * moved.size());
      moved[tensor.address()] = place;
      tensor.set_address(place);
    }
  for (const char *name : {"begin", "go_on", "look"})
    for (uint64_t &buffer : *listIn(manifest, name).mutable_commands(0)->mutable_launch()->mutable_buffers())
      if (auto to = moved.find(buffer); to != moved.end())
        buffer = to->second;
  for (auto &entry : entriesOf(manifest))
    if (entry.has_micro_batch()) {
      entry.add_places(0);
      entry.add_places(static_cast<uint32_t>(2 - entry.micro_batch()));
    }
  EXPECT_EQ(train(writeToy("placed", manifest), 1, "b"), expected);
}

// The runtime asks for the source of an input's numbers, whatever the model calls it and however many inputs share it.
TEST_F(TrainingTest, InputsAreKnownByTheirSource) {
  dtc::abi::Manifest manifest = toyManifest({.accumulation = 2});
  std::vector<std::string> expected = train(writeToy("plain", manifest), 1, "a");
  dtc::abi::Role &role = *manifest.mutable_roles(0);
  for (dtc::abi::Tensor &tensor : *role.mutable_tensors())
    if (tensor.kind() == dtc::abi::Tensor::INPUT)
      tensor.set_name(tensor.name() == "tokens"    ? "targets" // of another meaning
                      : tensor.name() == "targets" ? "labels"
                                                   : "key");
  dtc::abi::Tensor words = role.tensors(0); // again, for the lists but one
  words.set_name("words");
  words.set_address(role.arena_bytes());
  role.set_arena_bytes(role.arena_bytes() + 256);
  role.mutable_spaces(0)->set_stride(role.arena_bytes());
  for (const char *name : {"go_on", "look"})
    listIn(manifest, name).mutable_commands(0)->mutable_launch()->set_buffers(0, words.address());
  *role.add_tensors() = words;
  EXPECT_EQ(train(writeToy("renamed", manifest), 1, "b"), expected);
}

// Targets alone: their relation to the samples does not depend on there being tokens.
TEST_F(TrainingTest, NextTokensMayBeTheOnlyInput) {
  dtc::abi::Manifest manifest = toyManifest({});
  dtc::abi::Role &role = *manifest.mutable_roles(0);
  uint64_t targets = role.tensors(1).address();
  for (const char *name : {"begin", "go_on", "look"})
    listIn(manifest, name).mutable_commands(0)->mutable_launch()->set_buffers(0, targets);
  std::vector<std::string> expected = train(writeToy("both", manifest), 1, "a");
  role.mutable_tensors()->DeleteSubrange(0, 1);
  EXPECT_EQ(train(writeToy("alone", manifest), 1, "b"), expected);
}

// The sum of the gradients goes to the host and comes back, over something else that was put in its place.
TEST_F(TrainingTest, WhatIsMovedToTheHostComesBack) {
  dtc::abi::Manifest manifest = toyManifest({.dp = 2, .accumulation = 2});
  std::vector<std::string> expected = train(writeToy("plain", manifest), 2, "a");
  dtc::abi::Role &role = *manifest.mutable_roles(0);
  auto tensorOf = [&](const std::string &name) -> const dtc::abi::Tensor & {
    return *std::ranges::find(role.tensors(), name, &dtc::abi::Tensor::name);
  };
  const dtc::abi::Tensor &gradient = tensorOf("table.gradient");
  role.set_host_bytes(64);
  uint64_t host = dtc::abi::addressOf(addSpace(role, dtc::abi::Space::HOST, 0, 64), 0);
  auto copy = [&](dtc::abi::CommandList &list, uint64_t from, uint64_t to) -> dtc::abi::Copy & {
    dtc::abi::Copy &copy = *list.add_commands()->mutable_copy();
    copy.set_input(from);
    copy.set_output(to);
    copy.set_elements(gradient.local_shape(0));
    return copy;
  };
  copy(addList(manifest, "away"), gradient.address(), host).set_token(50);
  dtc::abi::CommandList &home = addList(manifest, "home");
  home.add_commands()->mutable_wait()->set_token(50);
  copy(home, tensorOf("table").address(), gradient.address());
  copy(home, host, gradient.address()).set_token(51);
  home.add_commands()->mutable_wait()->set_token(51);
  auto &step = entriesOf(manifest);
  for (const char *name : {"away", "home"}) {
    addEntry(role, dtc::abi::stepTimetable, name);
    for (int at = step.size() - 1; step[at - 1].list() == "join" || step[at - 1].list() == "turn"; --at)
      step.SwapElements(at, at - 1);
  }
  std::string program = writeToy("offloading", manifest);
  EXPECT_EQ(train(program, 2, "b"), expected);
  EXPECT_EQ(train(program, 2, "c", {"--replay-check", "1"}), expected);
  listIn(manifest, "home").mutable_commands()->DeleteSubrange(2, 2);
  EXPECT_NE(train(writeToy("lost", manifest), 2, "d"), expected);
}

std::string heldOutLoss(const std::string &output, const std::string &of) {
  return output.substr(std::min(output.find(of + "held-out loss"), output.size()), 30);
}

// The tokens of a step are copied to where they are used while the step before is still running. An evaluation spoils
// those copies, which nothing needs between two runs of steps.
TEST_F(TrainingTest, AStepMayBeginBeforeTheOneBeforeItHasEnded) {
  dtc::abi::Manifest manifest = toyManifest({.dp = 2, .accumulation = 2});
  manifest.mutable_training()->set_eval_every(4);
  std::vector<std::string> expected = train(writeToy("plain", manifest), 2, "a");
  std::string evaluated = heldOutLoss(output, "step 4: ");
  addBringing(manifest, 2);
  for (dtc::abi::TimetableEntry &entry : entriesOf(manifest))
    for (uint32_t place : {0U, static_cast<uint32_t>(entry.micro_batch())})
      entry.add_places(place);
  bringAhead(manifest, 1);
  dtc::abi::CommandList &spoil = addList(manifest, "spoil");
  for (int input : {0, 1}) {
    dtc::abi::Copy &copy = *spoil.add_commands()->mutable_copy();
    copy = listIn(manifest, "bring").commands(input).copy();
    copy.set_input(listIn(manifest, "bring").commands(1 - input).copy().input());
  }
  addEntry(*manifest.mutable_roles(0), dtc::abi::evaluationTimetable, "spoil");
  EXPECT_EQ(train(writeToy("overlapping", manifest), 2, "b", {"--set", "checkpoint_every=3"}), expected);
  EXPECT_EQ(heldOutLoss(output, "step 4: "), evaluated);
  EXPECT_EQ(train(writeToy("resumed", manifest), 2, "c", {"--resume", directory / "b/checkpoints/step-000003"}),
            std::vector<std::string>(expected.begin() + 3, expected.end()));
  EXPECT_EQ(run(directory / "overlapping", 2, {"--out", directory / "d", "--replay-check", "2"}), 3);
  EXPECT_THAT(output, HasSubstr("begins a step before the one before has ended, and cannot repeat a step"));
}

// Three steps ahead: each of the three that wait to be computed has a place, which moves on from step to step.
TEST_F(TrainingTest, StepsMayBeginSeveralStepsAhead) {
  dtc::abi::Manifest manifest = toyManifest({.dp = 2});
  std::string plain = writeToy("plain", manifest);
  addBringing(manifest, 3);
  for (dtc::abi::TimetableEntry &entry : entriesOf(manifest))
    for (uint32_t turns : {0, 3})
      entry.add_turns(turns);
  bringAhead(manifest, 3);
  std::string ahead = writeToy("ahead", manifest);
  for (int steps = 1; steps <= 6; ++steps) {
    Arguments more = {"--steps", std::to_string(steps)};
    std::vector<std::string> expected = train(plain, 2, fmt::format("plain{}", steps), more);
    std::string evaluated = heldOutLoss(output, "");
    ASSERT_NE(evaluated, "");
    EXPECT_EQ(train(ahead, 2, fmt::format("ahead{}", steps), more), expected) << steps;
    EXPECT_EQ(heldOutLoss(output, ""), evaluated) << steps;
  }
  EXPECT_EQ(train(ahead, 2, "evaluated", {"--set", "eval_every=4"}), train(plain, 2, "plain_whole"))
      << "places are counted from the first step of a run of steps, which an evaluation ends";
}

} // namespace
} // namespace dtc::test
