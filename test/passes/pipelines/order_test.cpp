// Rules on small lists of commands.
#include "passes/schedule/order/Order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using testing::ElementsAre;
using testing::HasSubstr;

namespace dtc {
namespace {

/// Commands "name" or "name@layer"; `after` by their numbers.
struct Commands {
  FlatFunction function;

  explicit Commands(const std::string &name = "micro") { function.name = name; }
  int add(const std::string &text, std::vector<int> after = {}) {
    FlatCommand &command = function.commands.emplace_back();
    size_t at = text.find('@');
    command.name = text.substr(0, at);
    if (at != std::string::npos) {
      command.layers = "h";
      command.layer = std::stoi(text.substr(at + 1));
    }
    command.after = std::move(after);
    return static_cast<int>(function.commands.size()) - 1;
  }
  int addView(std::vector<int> after) {
    int number = add("", std::move(after));
    function.commands[number].kind = FlatCommand::Kind::View;
    return number;
  }

  std::vector<std::string> apply(std::vector<OrderRule> rules) {
    OrderRules applied(rules);
    FlatOrder order = applied.apply(function);
    problem = findOrderProblem(function, order);
    unknown = applied.findUnknown();
    std::vector<std::string> names;
    for (int number : order)
      names.push_back(function.commands[number].layers.empty()
                          ? function.commands[number].name
                          : function.commands[number].name + "@" + std::to_string(function.commands[number].layer));
    return names;
  }
  std::string problem, unknown;
};

OrderRule behind(std::string move, std::string anchor, int64_t layer = 0) {
  return {"*", std::move(move), false, std::move(anchor), layer, "c.toml:1"};
}
OrderRule before(std::string move, std::string anchor, int64_t layer = 0) {
  return {"*", std::move(move), true, std::move(anchor), layer, "c.toml:1"};
}

/// b(ackward) and r(eduction) of two layers, the last first, then the optimizer.
Commands backward() {
  Commands commands;
  for (int layer : {2, 1, 0}) {
    int b = commands.add("b@" + std::to_string(layer));
    commands.add("r@" + std::to_string(layer), {b});
  }
  commands.add("update", {1, 3, 5});
  return commands;
}

TEST(OrderTest, EachLayersCommandGoesToItsLayersAnchor) {
  Commands commands = backward();
  EXPECT_THAT(commands.apply({}), ElementsAre("b@2", "r@2", "b@1", "r@1", "b@0", "r@0", "update"));
  EXPECT_THAT(commands.apply({behind("r", "b", -1)}), ElementsAre("b@2", "b@1", "r@2", "b@0", "r@1", "r@0", "update"));
  EXPECT_EQ(commands.problem, "");
  EXPECT_EQ(commands.unknown, "");
}

TEST(OrderTest, WhatGoesToOneAnchorKeepsItsOrder) {
  Commands commands = backward();
  std::vector<std::string> last = {"b@2", "b@1", "b@0", "r@2", "r@1", "r@0", "update"};
  EXPECT_EQ(commands.apply({before("r", "update")}), last);
  EXPECT_EQ(commands.apply({behind("r", "b", 5), before("r", "update"), before("r", "update")}), last);
  EXPECT_THAT(commands.apply({behind("r", "update")}), ElementsAre("b@2", "b@1", "b@0", "update", "r@2", "r@1", "r@0"));
  EXPECT_THAT(commands.problem,
              HasSubstr("list 'micro': 'update' cannot come before 'r' of h.2, which must be done first"));
}

TEST(OrderTest, OutsideTheLayersAnAnchorIsCountedFromTheEnds) {
  Commands commands = backward();
  commands.function.commands.back().after.clear();
  EXPECT_THAT(commands.apply({before("update", "b", -1)}),
              ElementsAre("update", "b@2", "r@2", "b@1", "r@1", "b@0", "r@0"));
  EXPECT_THAT(commands.apply({before("update", "b", 0)}),
              ElementsAre("b@2", "r@2", "b@1", "r@1", "update", "b@0", "r@0"));
}

TEST(OrderTest, RulesFollowOneAnother) {
  Commands commands;
  commands.add("x"), commands.add("y"), commands.add("z");
  EXPECT_THAT(commands.apply({behind("x", "y"), before("x", "y")}), ElementsAre("x", "y", "z"));
  EXPECT_THAT(commands.apply({behind("x", "z"), behind("y", "x")}), ElementsAre("z", "x", "y"));
}

TEST(OrderTest, ViewsGoWhereTheyAreRead) {
  Commands commands;
  int x = commands.add("x"), view = commands.addView({x});
  commands.add("reads", {view}), commands.add("z");
  EXPECT_THAT(commands.apply({behind("x", "z"), behind("reads", "x")}), ElementsAre("z", "x", "", "reads"));
  EXPECT_EQ(commands.problem, "");
  EXPECT_THAT(commands.apply({behind("x", "z")}), ElementsAre("reads", "z", "x", ""));
  // The reader of a view depends on what it shows.
  EXPECT_EQ(commands.problem, "list 'micro': 'reads' cannot come before 'x', which must be done first");
}

TEST(OrderTest, NamesThatThereAreNot) {
  Commands commands = backward();
  commands.apply({behind("updat", "b")});
  EXPECT_EQ(commands.unknown, "c.toml:1: no command is called 'updat'; did you mean 'update'?");
  commands.apply({behind("r", "updte")});
  EXPECT_EQ(commands.unknown, "c.toml:1: no command of a list with 'r' is called 'updte'; did you mean 'update'?");
  OrderRule other = behind("r", "b");
  other.list = "micr";
  commands.apply({other});
  EXPECT_EQ(commands.unknown, "c.toml:1: no list is called 'micr'; did you mean 'micro'?");
  other.list = "micro*";
  commands.apply({other});
  EXPECT_EQ(commands.unknown, "");
}

TEST(OrderTest, AnOrderNamesEachCommandOnce) {
  Commands commands = backward();
  EXPECT_THAT(findOrderProblem(commands.function, {0, 1, 2, 3, 4, 5, 5}), HasSubstr("each of its commands once"));
  EXPECT_THAT(findOrderProblem(commands.function, {0, 1}), HasSubstr("each of its commands once"));
  EXPECT_THAT(findOrderProblem(commands.function, {0, 1, 2, 3, 4, 5, 7}), HasSubstr("each of its commands once"));
}

/// Two stages that exchange x and y at the end of a step.
struct Stages {
  FlatRole roles[2];
  std::string problemOf(const std::vector<OrderRule> &rules) {
    std::vector<std::vector<FlatOrder>> orders;
    return applyOrder(rules, {&roles[0], &roles[1]}, orders);
  }
  Stages() {
    for (int stage : {0, 1}) {
      Commands commands("update." + std::to_string(stage));
      commands.add("x"), commands.add("y"), commands.add("own");
      for (int shared : {0, 1}) {
        commands.function.commands[shared].stages = StageSet::below(2);
        commands.function.commands[shared].meeting = commands.function.commands[shared].name;
      }
      roles[stage].functions.push_back(commands.function);
      roles[stage].step = {{0, -1}};
    }
  }
};

TEST(OrderTest, StagesStartWhatTheyShareInOneOrder) {
  Stages stages;
  EXPECT_EQ(stages.problemOf({behind("x", "y")}), ""); // on both
  OrderRule onOne = behind("x", "y");
  onOne.list = "update.1";
  EXPECT_EQ(stages.problemOf({onOne}), "order: stages 0 and 1 would start what they share in different orders: 'x' on "
                                       "the one where the other has 'y'");
  onOne = behind("x", "own");
  onOne.list = "update.1";
  EXPECT_THAT(stages.problemOf({onOne}), HasSubstr("different orders"));
  onOne = behind("own", "x");
  onOne.list = "update.1";
  EXPECT_EQ(stages.problemOf({onOne}), "");
}

} // namespace
} // namespace dtc
