// PipeDream's period against its definition: which parameters a stage computes with, and that no pass waits for
// another.
#include "timing/timetables/pipedream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace dtc::timetables {
namespace {

struct Done {
  std::map<std::pair<int64_t, int64_t>, int64_t> forward, backward; ///< by stage and step: in which turn
};

/// Walks the periods of a run of steps, two turns each. Checks what a stage must have in each turn.
Done walk(int64_t stages, int64_t steps) {
  Done done;
  std::vector<int64_t> updates(static_cast<size_t>(stages)), underWay = updates, most = updates;
  for (int64_t running = -stages; running < steps; ++running)
    for (int64_t half : {0, 1}) {
      int64_t turn = 2 * running + half;
      for (int64_t stage = 0; stage < stages; ++stage) {
        auto at = static_cast<size_t>(stage);
        bool isForward = pipedream::beginsForward(stage) == (half == 0);
        int64_t step = running + (isForward ? pipedream::forwardAhead(stages, stage) : pipedream::backwardAhead(stage));
        if (step < 0 || step >= steps)
          continue;
        if (isForward) {
          EXPECT_EQ(updates[at], std::max<int64_t>(0, step - pipedream::delayOf(stages, stage)));
          most[at] = std::max(most[at], ++underWay[at]);
          done.forward[{stage, step}] = turn;
          if (stage > 0) {
            EXPECT_LT(done.forward.at({stage - 1, step}), turn) << "what it reads is there";
          }
        } else {
          EXPECT_LT(done.forward.at({stage, step}), turn);
          if (stage + 1 < stages) {
            EXPECT_LT(done.backward.at({stage + 1, step}), turn);
          }
          done.backward[{stage, step}] = turn;
          EXPECT_EQ(updates[at]++, step);
          --underWay[at];
        }
      }
    }
  for (int64_t stage = 0; stage < stages; ++stage)
    EXPECT_EQ(most[static_cast<size_t>(stage)], std::min(steps, pipedream::versionsOf(stages, stage)));
  return done;
}

TEST(PipeDream, StagesComputeWithTheParametersOfTheDefinition) {
  for (int64_t stages = 1; stages <= 16; ++stages)
    for (int64_t steps : {int64_t(1), int64_t(2), stages, 3 * stages}) {
      Done done = walk(stages, steps);
      EXPECT_EQ(done.forward.size(), static_cast<size_t>(stages * steps));
      EXPECT_EQ(done.backward.size(), static_cast<size_t>(stages * steps));
      for (int64_t step = 0; step < steps; ++step)
        EXPECT_EQ(done.backward.at({0, step}) / 2, step) << "the first stage ends a step while it is the running one";
    }
}

TEST(PipeDream, HasTheVersionsOfThePaper) {
  EXPECT_EQ(pipedream::delayOf(4, 0), 3);
  EXPECT_EQ(pipedream::delayOf(4, 3), 0);
  EXPECT_EQ(pipedream::versionsOf(4, 0), 4);
  EXPECT_EQ(pipedream::versionsOf(4, 3), 1);
}

} // namespace
} // namespace dtc::timetables
