// What is hidden behind what, for a few events.
#include "tools/dtc/forecast/OrderTimes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using testing::ElementsAre;
using testing::Pair;

namespace dtc {
namespace {

using timing::Action;

/// Two starts, and launches before, during and after them.
timing::Step step() {
  timing::Step step;
  timing::StepList &list = step.lists.emplace_back();
  list.name = "step";
  uint32_t number = 0;
  for (Action::Kind kind : {Action::Kind::Launch, Action::Kind::Start, Action::Kind::Start, Action::Kind::Launch,
                            Action::Kind::Wait, Action::Kind::Wait, Action::Kind::Launch}) {
    Action &action = list.actions.emplace_back();
    action.kind = kind;
    action.command = number++;
  }
  return step;
}

/// The first moves from 1.5 to 5 and is waited for from 3 on, the second from 5 to 5.5 and is not.
std::map<ListedCommand, OrderTime> watched() {
  OrderTimes times(step(), /*ofClass=*/1);
  times.executed({1, 0, 0, 0, 0, 1});
  times.executed({1, 0, 1, 0, 1, 1, /*isStart=*/true});
  times.executed({1, 0, 2, 0, 1, 1, /*isStart=*/true});
  times.executed({0, 0, 3, 0, 1, 9}); // of another class
  times.executed({1, 0, 1, 0, 1.5, 5});
  times.executed({1, 0, 4, 0, 3, 5});
  times.executed({1, 0, 3, 0, 1, 3});
  times.executed({1, 0, 2, 0, 5, 5.5});
  times.executed({1, 0, 5, 0, 6, 6});
  times.executed({1, 0, 6, 0, 6, 7});
  return times.read();
}

TEST(OrderTimesTest, WhatRunsWhileSomethingMovesHidesIt) {
  std::map<ListedCommand, OrderTime> times = watched();
  ASSERT_EQ(times.size(), 2U);
  const OrderTime &first = times.at({0, 1}), &second = times.at({0, 2});
  EXPECT_DOUBLE_EQ(first.moving, 3.5);
  EXPECT_DOUBLE_EQ(first.exposed, 2);
  EXPECT_DOUBLE_EQ(first.hidden, 1.5);
  EXPECT_DOUBLE_EQ(first.spare, 0);
  EXPECT_THAT(first.behind, ElementsAre(Pair(ListedCommand{0, 3}, 1.5)));
  EXPECT_DOUBLE_EQ(second.moving, 0.5);
  EXPECT_DOUBLE_EQ(second.exposed, 0);
  EXPECT_DOUBLE_EQ(second.hidden, 0.5);
  EXPECT_DOUBLE_EQ(second.spare, 0.5);
}

TEST(OrderTimesTest, WhatIsQueuedSaysBehindWhat) {
  std::map<ListedCommand, OrderTime> times = watched();
  EXPECT_DOUBLE_EQ(times.at({0, 1}).queued, 0.5);
  EXPECT_TRUE(times.at({0, 1}).ahead.empty());
  EXPECT_DOUBLE_EQ(times.at({0, 2}).queued, 4);
  EXPECT_THAT(times.at({0, 2}).ahead, ElementsAre(Pair(ListedCommand{0, 1}, 3.5)));
}

TEST(OrderTimesTest, WhatStandsBeforeTheStartAndBehindTheWait) {
  OrderTime first = watched().at({0, 1});
  EXPECT_EQ(first.before, (ListedCommand{0, 0}));
  EXPECT_EQ(first.after, (ListedCommand{0, 6}));
}

} // namespace
} // namespace dtc
