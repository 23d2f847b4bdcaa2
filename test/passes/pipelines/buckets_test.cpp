// Which starts are joined, on small lists of commands; and what that gains where there are many small ones.
#include "passes/schedule/buckets/Buckets.h"
#include "passes/schedule/buckets/ChooseBuckets.h"
#include "passes/schedule/launches/JoinStarts.h"
#include "runtime/abi/commands.h"
#include "runtime/abi/written.h"
#include "timing/cost/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

namespace dtc {
namespace {

/// One list of reductions over `members` ranks, each waited for at the end.
class Reductions {
public:
  explicit Reductions(int64_t members = 8) {
    function.name = "micro_last";
    abi::AxisRef &axis = *move.group.add_axes();
    axis.set_axis("dp");
    axis.set_pre(1);
    axis.set_size(members);
    move.purpose = "collectives";
  }

  int add(const std::string &name, int64_t layer, double bytes) {
    function.commands.emplace_back().kind = FlatCommand::Kind::Launch;
    int start = addCommand(FlatCommand::Kind::Start, name, layer);
    FlatCommand &command = function.commands.back();
    command.mayJoin = true;
    command.direction = abi::UPDATE;
    command.move = static_cast<int>(role.moves.size());
    role.moves.push_back(move);
    role.moves.back().payload = bytes;
    return start;
  }
  int wait(int start) {
    int number = addCommand(FlatCommand::Kind::Wait, "", -1);
    function.commands.back().after = {start};
    function.commands[static_cast<size_t>(start)].users = {number};
    return number;
  }

  /// Layers from the last one on, each with starts of this many bytes: "a", "b", ...
  Reductions &layers(int64_t count, const std::vector<double> &bytes) {
    std::vector<int> starts;
    for (int64_t layer = count - 1; layer >= 0; --layer)
      for (size_t i = 0; i < bytes.size(); ++i)
        starts.push_back(add(std::string(1, static_cast<char>('a' + i)), layer, bytes[i]));
    for (int start : starts)
      wait(start);
    return *this;
  }

  std::vector<std::vector<int>> bucketsBy(std::vector<BucketRule> rules) {
    std::vector<std::vector<int>> found;
    for (const Bucket &bucket : findBuckets(rules, function, role.moves))
      found.push_back(bucket.starts);
    EXPECT_EQ(findOrderProblem(function, orderOf(findBuckets(rules, function, role.moves), function)), "");
    return found;
  }

  ChosenBuckets choose(const abi::BucketSize &size, const StartCosts &costs = assumedCosts()) {
    FlatRole whole = role;
    whole.functions = {function};
    return chooseBuckets({&whole}, size, costs, {});
  }
  ChosenBuckets chooseBytes(uint64_t bytes) { return choose({abi::BucketSize::Kind::Bytes, bytes}); }

  FlatFunction function;
  FlatRole role;

private:
  int addCommand(FlatCommand::Kind kind, const std::string &name, int64_t layer) {
    FlatCommand &command = function.commands.emplace_back();
    command.kind = kind;
    command.name = name;
    command.layers = layer < 0 ? "" : "h";
    command.layer = layer;
    return static_cast<int>(function.commands.size()) - 1;
  }
  FlatMove move;
};

BucketRule ruleOf(std::vector<std::string> starts, int64_t layers) { return {std::move(starts), layers, "", "c:1"}; }

std::string textOf(const ChosenBuckets &chosen) {
  std::string text = chosen.problem;
  for (const BucketRule &rule : chosen.rules) {
    for (const std::string &start : rule.starts)
      text += start + " ";
    text += "x" + std::to_string(rule.layers) + "; ";
  }
  return text;
}

TEST(BucketsTest, LayersGoTogetherInTheOrderOfTheirStarts) {
  Reductions five;
  five.layers(5, {1, 1}); // starts 1, 3; 5, 7; ...
  EXPECT_THAT(five.bucketsBy({ruleOf({"a", "b"}, 2)}),
              ElementsAre(ElementsAre(1, 3, 5, 7), ElementsAre(9, 11, 13, 15), ElementsAre(17, 19)));
  EXPECT_THAT(five.bucketsBy({ruleOf({"b"}, 3)}), ElementsAre(ElementsAre(3, 7, 11), ElementsAre(15, 19)));
  EXPECT_THAT(five.bucketsBy({ruleOf({"b"}, 1)}), IsEmpty());
  // Each at the place of its bucket's last start, and its waits at that of the first wait.
  FlatOrder order = orderOf(findBuckets({ruleOf({"b"}, 5)}, five.function, five.role.moves), five.function);
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 16, 17, 18, 3, 7, 11, 15, 19, 20, 21, 23, 25,
                                 27, 29, 22, 24, 26, 28));
}

TEST(BucketsTest, NothingIsStartedBehindAWaitForAnother) {
  Reductions reductions;
  int first = reductions.add("a", 1, 1), second = reductions.add("a", 0, 1);
  reductions.wait(first);
  int late = reductions.add("b", 0, 1);
  reductions.wait(second), reductions.wait(late);
  EXPECT_THAT(reductions.bucketsBy({ruleOf({"a", "b"}, 2)}), ElementsAre(ElementsAre(first, second)));
  // Nor does it move past a command that overwrites what it reads.
  reductions.function.commands[2].after = {first};
  EXPECT_THAT(reductions.bucketsBy({ruleOf({"a", "b"}, 2)}), ElementsAre(ElementsAre(second, late)));
}

TEST(BucketsTest, OfOneKindGroupAndTypeAndSoManyParts) {
  Reductions reductions;
  reductions.layers(40, {1, 1});
  EXPECT_THAT(reductions.bucketsBy({ruleOf({"a", "b"}, 40)}), ElementsAre(SizeIs(abi::MaximumParts), SizeIs(16)));
  reductions.role.moves[1].type = abi::BF16;
  reductions.role.moves[3].kind = abi::Collective::REDUCE_SCATTER;
  reductions.role.moves[5].group.mutable_axes(0)->set_axis("tp");
  reductions.role.moves[7].reduction = abi::MAX;
  reductions.function.commands[19].direction = abi::FORWARD; // the fifth layer's "b"
  reductions.function.commands[23].mayJoin = false;
  EXPECT_THAT(reductions.bucketsBy({ruleOf({"b"}, 40)}), ElementsAre(SizeIs(34)));
}

using Event = StartEvent;
Event start(int number, int bucket) { return {Event::Kind::Start, number, bucket}; }
Event await(int number) { return {Event::Kind::Wait, number}; }

TEST(JoinStartsTest, WhatStandsSideBySideWithItsWaitsIsOne) {
  using testing::Each;
  std::vector<Event> events = {start(0, 1), start(1, 1), start(2, 1), {}, await(0), await(1), await(2)};
  EXPECT_THAT(joinStarts(events, 3), ElementsAre(false, true, true));
  // Something between two starts, or two waits; waits in another order; different buckets, or none.
  EXPECT_THAT(
      joinStarts(std::vector<Event>{start(0, 1), {}, start(1, 1), start(2, 1), await(0), await(1), await(2)}, 3),
      ElementsAre(false, false, true));
  EXPECT_THAT(
      joinStarts(std::vector<Event>{start(0, 1), start(1, 1), start(2, 1), await(0), {}, await(1), await(2)}, 3),
      ElementsAre(false, false, true));
  EXPECT_THAT(joinStarts(std::vector<Event>{start(0, 1), start(1, 1), await(1), await(0)}, 2), Each(false));
  EXPECT_THAT(joinStarts(std::vector<Event>{start(0, 1), start(1, 2), await(0), await(1)}, 2), Each(false));
  EXPECT_THAT(joinStarts(std::vector<Event>{start(0, -1), start(1, -1), await(0), await(1)}, 2), Each(false));
}

TEST(JoinStartsTest, NoMorePartsThanOneMayHave) {
  std::vector<Event> events;
  for (int i = 0; i < 100; ++i)
    events.push_back(start(i, 0));
  for (int i = 0; i < 100; ++i)
    events.push_back(await(i));
  std::vector<bool> joined = joinStarts(events, 100);
  EXPECT_EQ(std::count(joined.begin(), joined.end(), true), 98);
  EXPECT_FALSE(joined[0] || joined[64]);
}

TEST(ChooseBucketsTest, AsManyLayersAsFit) {
  EXPECT_EQ(textOf(Reductions().layers(8, {100, 50}).chooseBytes(500)), "a b x3; ");
  EXPECT_EQ(textOf(Reductions().layers(8, {100, 50}).chooseBytes(150)), "a b x1; ");
  EXPECT_EQ(textOf(Reductions().layers(2, {100, 50}).chooseBytes(300)), "a b x2; ");
  // A start as large as a bucket is never delayed.
  EXPECT_EQ(textOf(Reductions().layers(8, {1000, 10, 500, 10}).chooseBytes(400)), "b d x8; ");
  // Of a layer that is larger, as many parts as fit.
  EXPECT_EQ(textOf(Reductions().layers(8, {60, 30, 60, 30, 30, 60}).chooseBytes(100)), "a b x1; c d x1; e f x1; ");
}

TEST(ChooseBucketsTest, WhatIsInNoLayerGoesAlongWhereItFits) {
  Reductions reductions;
  reductions.add("last", -1, 20);
  reductions.layers(4, {40});
  reductions.wait(1);
  EXPECT_EQ(textOf(reductions.chooseBytes(100)), "last a x2; ");
  EXPECT_EQ(textOf(reductions.chooseBytes(50)), "");
}

TEST(ChooseBucketsTest, MoreThanAllGradientsIsRefused) {
  EXPECT_EQ(textOf(Reductions().layers(4, {100}).chooseBytes(400)), "a x4; ");
  EXPECT_THAT(textOf(Reductions().layers(4, {100}).chooseBytes(401)),
              AllOf(HasSubstr("bucket_bytes 401 is more than all gradients that a list reduces, 400 bytes"),
                    HasSubstr("\"auto\"")));
  EXPECT_EQ(textOf(Reductions().chooseBytes(401)), ""); // nothing is reduced: nothing to refuse
}

TEST(ChooseBucketsTest, CostsLeaveAloneWhatIsLarge) {
  constexpr double small = 1e3, large = 50e6;
  ChosenBuckets chosen = Reductions().layers(12, {large, small, large, small}).choose({abi::BucketSize::Kind::Auto});
  EXPECT_EQ(textOf(chosen), "b d x12; ");
  EXPECT_THAT(chosen.rules.front().why, AllOf(HasSubstr("12 layers together"), HasSubstr("instead of 1.68 ms"),
                                              HasSubstr("24 KB which nothing hides"), HasSubstr("links assumed")));
  // Without figures of the links, no more than 1 MB waits.
  EXPECT_EQ(textOf(Reductions(512).layers(12, {300e3, 100e3}).choose({abi::BucketSize::Kind::Auto})), "a b x2; ");
}

// The least sum of latencies and of the last bucket: where a start is expensive more layers, where bytes are expensive
// fewer.
TEST(ChooseBucketsTest, LatencyIsWeighedAgainstTheLastBucket) {
  StartCosts costs;
  costs.links = "test";
  auto layersAt = [&](double latency) {
    costs.of = [=](const FlatMove &, double bytes) { return StartCost{latency, bytes / 1e9}; };
    return Reductions().layers(100, {500, 500}).choose({abi::BucketSize::Kind::Auto}, costs).rules.front().layers;
  };
  EXPECT_EQ(layersAt(1e-6), 10); // 100 / n * 1 us + n * 1 us
  EXPECT_EQ(layersAt(4e-6), 20);
  EXPECT_EQ(layersAt(1e-3), 25); // a start has 64 parts at most, 32 layers: four buckets, of which 25 layers are least
}

/// Seconds of all starts of a list by a ring on one level of links, joined as `joined` says.
double ringSeconds(const Reductions &reductions, const std::vector<std::vector<int>> &buckets) {
  timing::Level links;
  links.set_latency(5e-6);
  links.set_bandwidth(25e9);
  std::map<int, double> payloads; // by first part
  for (size_t number = 0; number < reductions.function.commands.size(); ++number)
    if (const FlatCommand &command = reductions.function.commands[number]; command.move >= 0)
      payloads[static_cast<int>(number)] = reductions.role.moves[static_cast<size_t>(command.move)].payload;
  for (const std::vector<int> &bucket : buckets)
    for (size_t i = 1; i < bucket.size(); ++i) {
      payloads[bucket.front()] += payloads.at(bucket[i]);
      payloads.erase(bucket[i]);
    }
  int64_t members = abi::membersOf(reductions.role.moves.front().group);
  timing::Route route{{{&links, 0, members, 1, links.latency(), links.bandwidth(), links.bandwidth()}}, members};
  double seconds = 0;
  for (const timing::Algorithm &algorithm : timing::algorithms())
    if (algorithm.name == "ring" && algorithm.kind == abi::Collective::ALL_REDUCE)
      for (auto [number, payload] : payloads)
        seconds += timing::secondsOf(algorithm.parts(route, {abi::Collective::ALL_REDUCE, payload}));
  return seconds;
}

// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters" (2021) has GPT-3 of 96 layers of
// width 12288. Of each layer: two norms of two parameters each, and the biases of four products.
TEST(ChooseBucketsTest, SmallGradientsOfGpt3TakeATwentiethOver512Ranks) {
  constexpr double width = 12288, bytes = 4;
  std::vector<double> small = {width, 4 * width, width, width, width, 3 * width, width, width};
  for (double &each : small)
    each *= bytes;
  Reductions reductions(512);
  reductions.layers(96, small);
  StartCosts costs = assumedCosts(); // a ring at 5 us and 25 GB/s
  costs.mostBytes = 0;
  ChosenBuckets chosen = reductions.choose({abi::BucketSize::Kind::Auto}, costs);
  std::vector<std::vector<int>> buckets = reductions.bucketsBy(chosen.rules);
  double alone = ringSeconds(reductions, {}), joined = ringSeconds(reductions, buckets);
  EXPECT_NEAR(alone, 96 * 8 * 2 * 511 * 5e-6, 0.01 * alone);
  EXPECT_GT(alone, 20 * joined) << alone << " s alone, " << joined << " s in " << buckets.size() << " buckets";
}

} // namespace
} // namespace dtc
