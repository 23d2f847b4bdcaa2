#include "timing/timetables/generators.h"

#include "runtime/abi/timetable_check.h"
#include "runtime/abi/timetables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace dtc::timing {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// "F0 F1 B0 B1".
std::string textOf(const std::vector<Pass> &passes) {
  std::string text;
  for (const Pass &pass : passes)
    text += (text.empty() ? "" : " ") + std::string(pass.kind == PassKind::Forward ? "F" : "B") +
            std::to_string(pass.microBatch);
  return text;
}

std::string generate(std::string_view name, int64_t stage, int64_t stages, int64_t microBatches) {
  return textOf(findGenerator(name)(stage, stages, microBatches));
}

// As in the papers' figures.
TEST(Generators, GiveTheOrdersOfThePapers) {
  EXPECT_EQ(generate("naive", 0, 2, 2), "F0 B0 F1 B1");
  EXPECT_EQ(generate("gpipe", 0, 4, 3), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(generate("gpipe", 3, 4, 3), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(generate("1f1b", 0, 4, 6), "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
  EXPECT_EQ(generate("1f1b", 2, 4, 6), "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5");
  EXPECT_EQ(generate("1f1b", 3, 4, 6), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5");
  EXPECT_EQ(generate("1f1b", 0, 4, 2), "F0 F1 B0 B1") << "fewer micro-batches than stages";
}

TEST(Generators, AreKnownByName) {
  EXPECT_THAT(generatorNames(), ElementsAre("naive", "gpipe", "1f1b"));
  EXPECT_EQ(findGenerator("zero"), nullptr);
}

/// Runs all stages of a pipeline, each as far as it can: a forward pass needs that of the stage before, a backward pass
/// that of the stage after. Every pass takes one unit of time. Returns when all are done, or -1 where they never are.
int64_t simulate(Generator generate, int64_t stages, int64_t microBatches) {
  std::vector<std::vector<Pass>> passes;
  for (int64_t stage = 0; stage < stages; ++stage)
    passes.push_back(generate(stage, stages, microBatches));
  std::vector<size_t> next(static_cast<size_t>(stages), 0);
  std::map<std::tuple<PassKind, int64_t, int64_t>, int64_t> doneAt; // by kind, stage and micro-batch
  for (int64_t time = 0; time <= 4 * stages * microBatches; ++time) {
    bool isDone = true;
    for (int64_t stage = 0; stage < stages; ++stage) {
      size_t &at = next[static_cast<size_t>(stage)];
      if (at == passes[static_cast<size_t>(stage)].size())
        continue;
      isDone = false;
      auto [kind, micro] = passes[static_cast<size_t>(stage)][at];
      bool isForward = kind == PassKind::Forward, isEnd = stage == (isForward ? 0 : stages - 1);
      auto needed = isEnd ? doneAt.end() : doneAt.find({kind, stage + (isForward ? -1 : 1), micro});
      if (!isEnd && (needed == doneAt.end() || needed->second > time))
        continue;
      doneAt[{kind, stage, micro}] = time + 1;
      ++at;
    }
    if (isDone)
      return time;
  }
  return -1;
}

// The bubbles of the header: (p - 1) of m + p - 1 ticks, forward and backward; naive keeps one stage busy at a time.
TEST(Generators, TakeAsLongAsTheirFormulasSay) {
  for (int64_t stages = 1; stages <= 6; ++stages)
    for (int64_t microBatches = 1; microBatches <= 12; ++microBatches) {
      EXPECT_EQ(simulate(findGenerator("gpipe"), stages, microBatches), 2 * (microBatches + stages - 1));
      EXPECT_EQ(simulate(findGenerator("1f1b"), stages, microBatches), 2 * (microBatches + stages - 1))
          << stages << " " << microBatches;
      EXPECT_EQ(simulate(findGenerator("naive"), stages, microBatches), 2 * microBatches * stages);
    }
}

/// This many micro-batches are between their passes at a time.
int64_t mostUnderWay(const std::vector<Pass> &passes) {
  int64_t underWay = 0, most = 0;
  for (const Pass &pass : passes)
    most = std::max(most, underWay += pass.kind == PassKind::Forward ? 1 : -1);
  return most;
}

TEST(Generators, KeepTheStashThatTheirFormulasSay) {
  for (int64_t stages = 1; stages <= 6; ++stages)
    for (int64_t stage = 0; stage < stages; ++stage)
      for (int64_t m = 1; m <= 12; ++m) {
        EXPECT_EQ(mostUnderWay(findGenerator("naive")(stage, stages, m)), 1);
        EXPECT_EQ(mostUnderWay(findGenerator("gpipe")(stage, stages, m)), m);
        EXPECT_EQ(mostUnderWay(findGenerator("1f1b")(stage, stages, m)), std::min(m, stages - stage));
      }
}

// Gradients add in one order, whatever the timetable.
TEST(Generators, HaveBackwardPassesInTheOrderOfTheMicroBatches) {
  for (std::string_view name : generatorNames())
    for (int64_t stage = 0; stage < 4; ++stage) {
      std::vector<int64_t> forward, backward;
      for (const Pass &pass : findGenerator(name)(stage, 4, 5))
        (pass.kind == PassKind::Forward ? forward : backward).push_back(pass.microBatch);
      EXPECT_THAT(forward, ElementsAre(0, 1, 2, 3, 4)) << name;
      EXPECT_THAT(backward, ElementsAre(0, 1, 2, 3, 4)) << name;
    }
}

/// What the checker of timetables says of a stage whose forward pass of micro-batch m leaves something in place
/// m % places for the backward pass.
std::string faultOf(const std::vector<Pass> &passes, int64_t microBatches, int64_t places) {
  abi::Role role;
  role.set_name("all");
  role.add_spaces()->set_places(static_cast<uint32_t>(places));
  abi::Timetable step;
  step.set_name(std::string(abi::stepTimetable));
  for (const Pass &pass : passes) {
    abi::TimetableEntry &entry = *step.add_period();
    entry.set_list(pass.kind == PassKind::Forward ? "F" : "B");
    entry.set_micro_batch(pass.microBatch);
    entry.add_places(static_cast<uint32_t>(pass.microBatch % places));
  }
  abi::JudgedLists lists;
  lists.byName["F"] = {abi::CommandList::FORWARD_PASS, {}, {0}};
  lists.byName["B"] = {abi::CommandList::BACKWARD_PASS, {0}, {}};
  lists.spaces = {0};
  lists.describe = [](size_t) { return "the stash"; };
  std::string fault = abi::findPassFault(role, step, lists, 1, microBatches);
  return fault.empty() ? abi::findPlaceFault(role, step, lists) : fault;
}

TEST(Generators, PassTheCheckOfProgramsInAsManyPlacesAsTheirFormulasSay) {
  constexpr int64_t stages = 4;
  for (std::string_view name : generatorNames())
    for (int64_t stage = 0; stage < stages; ++stage)
      for (int64_t m = 1; m <= 9; ++m) {
        std::vector<Pass> passes = findGenerator(name)(stage, stages, m);
        int64_t stash = mostUnderWay(passes);
        EXPECT_EQ(faultOf(passes, m, stash), "") << name;
        if (stash > 1) {
          EXPECT_THAT(faultOf(passes, m, stash - 1), HasSubstr("the place is taken too early")) << name;
        }
      }
}

// If a generator made these mistakes, the compiler would report it.
TEST(Generators, WithAMistakeDoNotPassTheCheck) {
  using enum PassKind;
  EXPECT_EQ(faultOf({{Backward, 0}, {Forward, 0}}, 1, 1),
            "role 'all': its step runs list 'B' on micro-batch 0 in stage 0 (entry 0) before its turn");
  EXPECT_EQ(faultOf({{Forward, 0}, {Forward, 1}, {Backward, 1}, {Backward, 0}}, 2, 2),
            "role 'all': its step adds the gradients of list 'B' on micro-batch 0 in stage 0 (entry 3) behind those of "
            "list 'B' on micro-batch 1 in stage 0 (entry 2); they add in the order of the micro-batches");
  EXPECT_EQ(faultOf({{Forward, 0}, {Backward, 0}}, 2, 1), "role 'all': its step runs 1 micro-batches of 2 in stage 0");
}

} // namespace
} // namespace dtc::timing
