#include "runtime/abi/resolve.h"

#include "test/runtime/program/manifests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtc::abi {
namespace {

using testing::ElementsAre;

/// Two stages of two layers each, and a role with a private space and one of three places.
class ResolveTest : public testing::Test {
protected:
  ResolveTest() {
    for (int64_t number : {0, 1, 2, 3}) {
      Layer &layer = *manifest.add_layers();
      layer.set_list("h");
      layer.set_number(number);
    }
    for (uint32_t first : {0, 2}) {
      Stage &stage = *manifest.add_stages();
      for (uint32_t i : {0, 1}) {
        stage.add_layers(first + i);
        stage.add_sites(100 + first + i);
      }
    }
    for (const char *location : {".attn", ".", "wte"})
      manifest.add_locations(location);
    role.set_arena_bytes(4096);
    test::addSpace(role, Space::PRIVATE, 1024, 1024);
    test::addSpace(role, Space::REGISTERED, 2048, 256, 3);
    CommandList &list = test::addList(manifest, "forward");
    Launch &launch = *list.add_commands()->mutable_launch();
    launch.add_buffers(addressOf(0, 16));
    launch.add_buffers(addressOf(1, 32));
    launch.add_scalars()->set_site(1);
    launch.add_scalars()->set_value(5);
    list.mutable_commands(0)->set_layer(1);
    Collective &start = *list.add_commands()->mutable_start();
    start.set_input(addressOf(1, 0));
    start.set_output(addressOf(0, 0));
    start.set_token(7);
    start.set_token_space(1);
    start.set_value(".attn.bias");
    list.mutable_commands(1)->set_layer(0);
    list.mutable_commands(1)->set_location(1);
    Wait &wait = *list.add_commands()->mutable_wait();
    wait.set_token(7);
    wait.set_token_space(1);
    list.mutable_commands(2)->set_location(2);
  }

  CommandList resolve(uint32_t stage, uint32_t place) const {
    TimetableEntry entry;
    entry.set_list("forward");
    entry.set_stage(stage);
    entry.add_places(0);
    entry.add_places(place);
    return Resolver(manifest, role).resolve(entry);
  }

  Manifest manifest;
  Role role;
};

TEST_F(ResolveTest, AddressesAreThoseOfThePlace) {
  EXPECT_THAT(resolve(0, 0).commands(0).launch().buffers(), ElementsAre(1040, 2080));
  EXPECT_THAT(resolve(0, 2).commands(0).launch().buffers(), ElementsAre(1040, 2592));
  EXPECT_EQ(resolve(0, 1).commands(1).start().input(), 2304);
  EXPECT_EQ(resolve(0, 1).commands(1).start().output(), 1024);
}

TEST_F(ResolveTest, SoAreThoseOfLogarithmsAndCounts) {
  CommandList &list = *manifest.mutable_lists(0);
  list.mutable_commands(0)->mutable_launch()->set_grid_count(addressOf(1, 4));
  Collective &rows = *list.mutable_commands(1)->mutable_start();
  rows.set_reduction(LOG_SUM_EXP);
  rows.set_log_input(addressOf(1, 8));
  rows.set_log_output(addressOf(0, 12));
  rows.set_counts(addressOf(1, 16));
  rows.set_received(addressOf(0, 20));
  CommandList resolved = resolve(0, 1);
  EXPECT_EQ(resolved.commands(0).launch().grid_count(), 2308);
  const Collective &call = resolved.commands(1).start();
  EXPECT_EQ(call.log_input(), 2312);
  EXPECT_EQ(call.log_output(), 1036);
  EXPECT_EQ(call.counts(), 2320);
  EXPECT_EQ(call.received(), 1044);
  list.mutable_commands(0)->mutable_launch()->clear_grid_count();
  rows.clear_reduction();
  rows.clear_counts();
  rows.clear_received();
  rows.set_log_output(12);
  resolved = resolve(0, 1);
  EXPECT_FALSE(resolved.commands(0).launch().has_grid_count() || resolved.commands(1).start().has_counts() ||
               resolved.commands(1).start().has_received());
  EXPECT_EQ(resolved.commands(1).start().log_output(), 12) << "of no logarithms";
}

// Addresses of the host's memory count from its own start, and no number is an address of both.
TEST_F(ResolveTest, AddressesOfTheHostLieBehindAnyArena) {
  role.set_host_bytes(1024);
  uint32_t host = test::addSpace(role, Space::HOST, 512, 128, 4);
  Copy &copy = *manifest.mutable_lists(0)->add_commands()->mutable_copy();
  copy.set_input(addressOf(1, 8));
  copy.set_output(addressOf(host, 16));
  copy.set_token(7);
  copy.set_token_space(host);
  TimetableEntry entry;
  entry.set_list("forward");
  for (uint32_t place : {0, 1, 3})
    entry.add_places(place);
  Copy resolved = Resolver(manifest, role).resolve(entry).commands(3).copy();
  EXPECT_EQ(resolved.input(), 2312);
  EXPECT_EQ(resolved.output(), HostBegin + 512 + 3 * 128 + 16);
  EXPECT_FALSE(isOfHost(resolved.input()));
  EXPECT_TRUE(isOfHost(resolved.output()));
  EXPECT_EQ(resolved.token(), 7 + 3 * 8) << "of the place";
  manifest.mutable_lists(0)->mutable_commands(3)->mutable_copy()->clear_token();
  EXPECT_FALSE(Resolver(manifest, role).resolve(entry).commands(3).copy().has_token());
}

TEST_F(ResolveTest, EachPlaceHasItsTokens) {
  EXPECT_EQ(resolve(0, 0).commands(1).start().token(), 7);
  uint32_t own = resolve(0, 1).commands(1).start().token();
  EXPECT_EQ(resolve(0, 1).commands(2).wait().token(), own);
  EXPECT_GT(own, 7) << "other tokens of the first place are smaller";
  EXPECT_NE(resolve(0, 2).commands(1).start().token(), own);
}

TEST_F(ResolveTest, LayersSitesAndPlacesInTheModelAreThoseOfTheStage) {
  CommandList second = resolve(1, 0);
  EXPECT_EQ(second.commands(0).layer(), 3);
  EXPECT_EQ(second.commands(0).launch().scalars(0).value(), 103);
  EXPECT_EQ(second.commands(0).launch().scalars(1).value(), 5);
  EXPECT_EQ(resolve(0, 0).commands(0).launch().scalars(0).value(), 101);
  EXPECT_EQ(locationOf(manifest, second.commands(0)), "h.3.attn");
  EXPECT_EQ(locationOf(manifest, second.commands(1)), "h.2");
  EXPECT_EQ(locationOf(manifest, second.commands(2)), "wte");
  EXPECT_EQ(second.commands(1).start().value(), "h.2.attn.bias");
}

TEST_F(ResolveTest, AllAreTheListsThatARoleRunsAsItRunsThemFirst) {
  test::addList(manifest, "idle");
  TimetableEntry &entry = test::addEntry(role, stepTimetable, "forward");
  entry.set_stage(1);
  test::addEntry(role, evaluationTimetable, "forward");
  std::vector<CommandList> all = Resolver(manifest, role).all();
  ASSERT_EQ(all.size(), 1);
  EXPECT_EQ(all[0].commands(0).layer(), 3);
}

TEST_F(ResolveTest, WhatDoesNotExistIsNowhere) {
  manifest.mutable_lists(0)->mutable_commands(0)->mutable_launch()->set_buffers(0, addressOf(2, 0));
  manifest.mutable_lists(0)->mutable_commands(0)->set_layer(2);
  Command command = resolve(0, 0).commands(0);
  EXPECT_GT(command.launch().buffers(0), uint64_t(1) << 47);
  EXPECT_EQ(locationOf(manifest, command), "?.attn");
}

/// The list of each entry, the running step, the step that the entry is for, and its places.
std::vector<std::string> unrolled(const Timetable &timetable, int64_t steps) {
  std::vector<std::string> text;
  for (const TimedEntry &timed : unroll(timetable, steps)) {
    text.push_back(timed.entry->list() + std::to_string(timed.step) + std::to_string(timed.step + timed.entry->step()));
    for (uint32_t place : timed.entry->places())
      text.back() += "," + std::to_string(place);
    EXPECT_EQ(timed.entry->turns_size(), 0);
  }
  return text;
}

TEST(TimetableTest, StepsUnroll) {
  Timetable timetable;
  timetable.add_period()->set_list("a");
  timetable.add_period()->set_list("b");
  EXPECT_THAT(unrolled(timetable, 2), ElementsAre("a00", "b00", "a11", "b11"));
  EXPECT_EQ(stepsToJudge(timetable), 1);
  timetable.mutable_period(0)->set_step(2);
  EXPECT_THAT(unrolled(timetable, 1), ElementsAre("a-20", "b00")) << "what is not for the one step is left out";
  EXPECT_THAT(unrolled(timetable, 4), ElementsAre("a-20", "a-11", "a02", "b00", "a13", "b11", "b22", "b33"));
  EXPECT_EQ(stepsToJudge(timetable), 5);
}

TEST(TimetableTest, EachStepMayBeRedone) {
  Role role;
  auto add = [&](std::string_view timetable, const char *list, int32_t step) {
    TimetableEntry &entry = *timetableIn(role, timetable).add_period();
    entry.set_list(list);
    entry.set_step(step);
  };
  add(stepTimetable, "b", 0);
  add(stepTimetable, "a", 1);
  EXPECT_FALSE(mayRedo(role));
  EXPECT_EQ(runsToJudge(role, timetableOf(role, stepTimetable)).size(), 1u);
  add(redoTimetable, "c", 0);
  add(redoTimetable, "a", 1);
  EXPECT_TRUE(mayRedo(role));
  std::vector<Unrolled> runs = runsToJudge(role, timetableOf(role, stepTimetable), 2);
  ASSERT_EQ(runs.size(), 2u);
  std::vector<std::string> texts;
  for (const Unrolled &run : runs)
    for (const TimedEntry &timed : run)
      texts.push_back(timed.entry->list() + std::to_string(timed.step) + (timed.isRedo ? "!" : ""));
  EXPECT_THAT(texts, ElementsAre("a-1", "b0", "a0", "b1", // the last step begins no other
                                 "a-1", "b0", "a0", "c0!", "a0!", "b1", "c1!"));
  EXPECT_TRUE(runsToJudge(role, timetableOf(role, redoTimetable)).empty()) << "it is part of steps";
}

TEST(TimetableTest, EntriesMoveOnWithTheirOwnStep) {
  Timetable timetable;
  for (int32_t step : {1, 0}) {
    TimetableEntry &entry = *timetable.add_period();
    entry.set_list(step == 1 ? "a" : "b");
    entry.set_step(step);
    entry.add_places(1);
    for (uint32_t turns : {0, 3})
      entry.add_turns(turns);
  }
  timetable.mutable_period(1)->add_places(2);
  EXPECT_THAT(unrolled(timetable, 4),
              ElementsAre("a-10,1,0", "a01,1,1", "b00,1,2", "a12,1,2", "b11,1,0", "a23,1,0", "b22,1,1", "b33,1,2"));
  EXPECT_EQ(stepsToJudge(timetable), 1 + 3 + 3);
  EXPECT_EQ(stepsOfTurn(timetable.period(0)), 3);
  timetable.mutable_period(0)->add_turns(2);
  EXPECT_EQ(stepsOfTurn(timetable.period(0)), 6);
}

TEST(TimetableTest, InstancesAreEqualInEqualPlaces) {
  TimetableEntry entry;
  entry.set_list("a");
  std::string first = instanceOf(entry);
  entry.add_turns(2);
  EXPECT_EQ(instanceOf(inStep(entry, 0)), first) << "place 0 is as good as no place";
  EXPECT_NE(instanceOf(inStep(entry, 1)), first);
  EXPECT_EQ(instanceOf(inStep(entry, 4)), first);
}

} // namespace
} // namespace dtc::abi
