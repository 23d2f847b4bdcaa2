// What may hide a start, on small lists.
#include "passes/schedule/order/OrderCandidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

namespace dtc {
namespace {

struct List {
  FlatFunction function;
  FlatOrder order;

  int add(FlatCommand::Kind kind, const std::string &name, std::vector<int> after, int64_t layer = -1) {
    FlatCommand &command = function.commands.emplace_back();
    command.kind = kind;
    command.name = name;
    command.after = std::move(after);
    command.sent = 1;
    if (layer >= 0) {
      command.layers = "h";
      command.layer = layer;
    }
    order.push_back(static_cast<int>(function.commands.size()) - 1);
    return order.back();
  }
  int launch(const std::string &name, std::vector<int> after = {}, int64_t layer = -1) {
    return add(FlatCommand::Kind::Launch, name, std::move(after), layer);
  }
  int start(const std::string &name, std::vector<int> after, int64_t layer = -1) {
    return add(FlatCommand::Kind::Start, name, std::move(after), layer);
  }
  int wait(int start) {
    const FlatCommand &started = function.commands[start];
    return add(FlatCommand::Kind::Wait, "wait " + started.name, {start}, started.layer);
  }

  std::vector<std::vector<std::string>> of(int start) const {
    OrderCandidates candidates(function, order, [](const FlatCommand &) { return 1.0; });
    std::vector<std::vector<std::string>> texts;
    for (const std::vector<OrderRule> &rules : candidates.of({start, 1, 1})) {
      std::vector<std::string> &text = texts.emplace_back();
      for (const OrderRule &rule : rules)
        text.push_back(rule.move + (rule.isBefore ? " before " : " after ") + rule.anchor +
                       (rule.layer ? " " + std::to_string(rule.layer) : ""));
    }
    return texts;
  }
};

TEST(OrderCandidatesTest, WorkThatIsNotNeededGoesBehindTheStart) {
  List list;
  int input = list.launch("input"), weight = list.launch("weight", {input});
  list.launch("narrow", {weight});
  int start = list.start("sum", {input});
  list.launch("reader", {list.wait(start)});
  // With what needs it, in that order; `input` itself stays.
  EXPECT_THAT(list.of(start), Contains(ElementsAre("narrow after sum", "weight after sum")));
  EXPECT_THAT(list.of(start), Not(Contains(Contains("input after sum"))));
}

TEST(OrderCandidatesTest, WorkBehindTheWaitGoesBeforeIt) {
  List list;
  int input = list.launch("input"), start = list.start("sum", {input}), wait = list.wait(start);
  list.launch("reader", {wait});
  int other = list.launch("other", {input});
  list.launch("last", {other});
  EXPECT_THAT(list.of(start), Contains(ElementsAre("other before wait sum", "last before wait sum")));
  EXPECT_THAT(list.of(start), Not(Contains(Contains("reader before wait sum"))));
}

// The gather of a parameter needs nothing, or only what is computed from the parameter.
TEST(OrderCandidatesTest, TheStartGoesBeforeWorkThatItDoesNotNeed) {
  List list;
  int first = list.launch("first"), second = list.launch("second", {first}), narrow = list.launch("narrow");
  int third = list.launch("third", {second}), start = list.start("gather", {narrow});
  list.launch("reader", {list.wait(start), third});
  EXPECT_THAT(list.of(start), Contains(ElementsAre("narrow before second", "gather before second")));
  EXPECT_THAT(list.of(start), Not(Contains(ElementsAre("narrow before third", "gather before third"))));
}

TEST(OrderCandidatesTest, TheWaitGoesToItsReaderWithWhatReadsTheResultAlone) {
  List list;
  int input = list.launch("input"), start = list.start("sum", {input}), wait = list.wait(start);
  int wide = list.launch("widen", {wait}), other = list.launch("other", {input});
  list.launch("both", {wide, other});
  EXPECT_THAT(list.of(start), Contains(ElementsAre("wait sum before both", "widen before both")));
}

TEST(OrderCandidatesTest, WhatIsNotUrgentLetsOthersPass) {
  List list;
  int input = list.launch("input"), large = list.start("large", {input}), urgent = list.start("urgent", {input}),
      start = list.start("sum", {input});
  list.launch("first", {list.wait(urgent)});
  list.launch("reader", {list.wait(start)});
  list.wait(large);
  EXPECT_THAT(list.of(start), Contains(ElementsAre("large after sum")));
  EXPECT_THAT(list.of(start), Not(Contains(Contains("urgent after sum"))));
}

TEST(OrderCandidatesTest, LayersAreCountedFromTheMovedCommandsOwn) {
  List list;
  int previous = -1;
  for (int64_t layer : {2, 1, 0}) {
    std::vector<int> after;
    if (previous >= 0)
      after.push_back(previous);
    int input = list.launch("input", after, layer);
    if (layer < 2)
      previous = list.wait(list.start("sum", {input}, layer));
    else
      list.launch("weight", {input}, layer);
    if (layer == 2)
      previous = input;
  }
  int start = 3; // of layer 1
  ASSERT_EQ(list.function.commands[start].name, "sum");
  EXPECT_THAT(list.of(start), Contains(ElementsAre("weight after sum -1")));
}

// Those of all layers would go to one place.
TEST(OrderCandidatesTest, WhatIsOfALayerStaysInTheLayers) {
  List list;
  int input = list.launch("input");
  list.launch("weight", {input}, 1);
  int start = list.start("sum", {input});
  list.wait(start);
  EXPECT_THAT(list.of(start), IsEmpty());
}

} // namespace
} // namespace dtc
