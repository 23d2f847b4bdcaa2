// Bounds of pipelines against timetables, simulated with every kind of cut.
#include "test/timing/plans/models.h"
#include "timing/timetables/named.h"
#include "timing/timetables/simulate.h"

#include <algorithm>
#include <limits>
#include <random>

namespace dtc::plans {
namespace {

using timetables::Kind;
using timetables::Named;
using timetables::Timetable;

constexpr double DeviceRate = 2e12; ///< of a device of roundGpus

/// The least of all that products could do for one layer and one token, and for the head.
double layerFlops() { return 6 * smallModel().layerParameters * (1 - 4.0 / 64); }
constexpr double headFlops = 6 * 64 * 1000;

double bubble(const Problem &problem, const std::string &timetable, int64_t ranks, int64_t microBatches) {
  Candidate candidate = candidateOf({{"pp", ranks}}, "ddp", microBatches);
  candidate.timetable = timetable;
  return boundOf("compute and bubble", problem, candidate);
}

/// A pipeline whose backward passes hand the input gradient on before they compute weight gradients.
Timetable handedOnEarly(Timetable timetable) {
  for (auto &entries : timetable.ranks) {
    std::vector<timetables::Entry> split;
    for (timetables::Entry entry : entries) {
      entry.withNext = false; // they run one after the other
      if (entry.kind != Kind::Backward) {
        split.push_back(entry);
        continue;
      }
      entry.kind = Kind::BackwardInput;
      split.push_back(entry);
      entry.kind = Kind::BackwardWeight;
      split.push_back(entry);
    }
    entries = std::move(split);
  }
  return timetable;
}

/// Layers cut into as many stages, each with one at least.
std::vector<int64_t> randomCut(int64_t layers, int64_t stages, std::mt19937 &random) {
  std::vector<int64_t> cut(static_cast<size_t>(stages), 1);
  for (int64_t left = layers - stages; left > 0; --left)
    ++cut[std::uniform_int_distribution<size_t>(0, cut.size() - 1)(random)];
  return cut;
}

/// Seconds of a step with a cut into stages, on devices of some rates. All work of a layer and the head is products.
double simulated(const Named &named, const std::vector<int64_t> &cut, const std::vector<double> &rates,
                 int64_t microBatches, double layer, double head) {
  auto ranks = static_cast<int32_t>(rates.size()), perRank = static_cast<int32_t>(cut.size()) / ranks;
  Timetable timetable =
      handedOnEarly(timetables::generate(named, {ranks, perRank, static_cast<int32_t>(microBatches)}));
  timetables::Costs costs = timetables::equalCosts(timetable.stages());
  for (size_t stage = 0; stage < cut.size(); ++stage) {
    double flops = static_cast<double>(cut[stage]) * layer + (stage + 1 == cut.size() ? head : 0);
    double pass = flops / 3 / static_cast<double>(microBatches) / rates[static_cast<size_t>(timetable.rankOf[stage])];
    timetables::StageCosts &each = costs.stages[stage];
    each.forward = each.input = each.weight = pass;
    each.backward = 2 * pass;
  }
  return timetables::stepSeconds(timetable, costs);
}

/// What all layers and the head of smallModel do in a step, with no attention.
Problem withoutAttention(const std::string &cluster, int64_t devices, int64_t layers) {
  Problem problem = problemOn(cluster, devices);
  problem.model.layers = layers;
  problem.model.flopsPerToken = static_cast<double>(layers) * 6 * problem.model.layerParameters + headFlops;
  return problem;
}

/// roundGpus with two levels, kinds "G" and "H" of half as many flops again, and these nodes.
std::string replaceNodes(const std::string &nodes) {
  std::string text = roundGpus(1, 2);
  std::string old = "nodes { count: 1 device: \"G\" devices: 2 }\n";
  text.replace(text.find(old), old.size(), nodes);
  return text + "devices { name: \"H\" peaks { type: \"f32\" flops: 3e12 } memory_bytes: 1000000000 "
                "memory_bandwidth: 1e12 }\nlevels { name: \"outer\" units: 2 latency: 10e-6 bandwidth: 10e9 }\n";
}

class Bubbles : public testing::TestWithParam<int> {};

// No cut of any timetable is faster than the bound.
TEST_P(Bubbles, AreBelowAllCuts) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  auto pick = [&](int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); };
  for (const Named &named : timetables::allNamed())
    for (int round = 0; round < 12; ++round) {
      int64_t ranks = pick(2, 6), microBatches = pick(1, 16), stages = ranks * named.leastPerRank;
      int64_t layers = stages + pick(0, 20);
      timetables::Shape shape = {static_cast<int32_t>(ranks), named.leastPerRank, static_cast<int32_t>(microBatches)};
      if (!timetables::findMisfit(named, shape).empty())
        continue;
      Problem problem = withoutAttention(roundGpus(1, ranks), ranks, layers);
      double bound = bubble(problem, std::string(named.name), ranks, microBatches);
      double layer = 6 * problem.model.layerParameters * problem.model.tokens();
      double head = headFlops * problem.model.tokens();
      std::vector<double> rates(static_cast<size_t>(ranks), DeviceRate);
      double least = std::numeric_limits<double>::infinity();
      for (int cut = 0; cut < 20; ++cut)
        least = std::min(least, simulated(named, randomCut(layers, stages, random), rates, microBatches, layer, head));
      EXPECT_LE(bound, least * (1 + 1e-9)) << named.name << " " << ranks << " " << microBatches << " " << layers;
      EXPECT_GT(bound, 0);
    }
}
INSTANTIATE_TEST_SUITE_P(Random, Bubbles, testing::Range(0, 8));

// Nor on devices of two kinds, the slower first or last.
TEST(UnequalRows, AreBelowAllCuts) {
  std::mt19937 random(5);
  for (bool isSlowFirst : {true, false})
    for (const char *name : {"1f1b", "gpipe", "zb-h1", "zbv"})
      for (int64_t microBatches : {4, 8, 12}) {
        std::string slow = "nodes { count: 1 device: \"G\" devices: 2 }\n";
        std::string fast = "nodes { count: 1 device: \"H\" devices: 2 }\n";
        std::string text = replaceNodes(isSlowFirst ? slow + fast : fast + slow);
        const Named &named = *timetables::findNamed(name);
        int64_t layers = 24;
        Problem problem = withoutAttention(text, 4, layers);
        double bound = bubble(problem, name, 4, microBatches);
        double layer = 6 * problem.model.layerParameters * problem.model.tokens();
        double head = headFlops * problem.model.tokens();
        std::vector<double> rates = {DeviceRate, DeviceRate, 3e12, 3e12};
        if (!isSlowFirst)
          std::ranges::reverse(rates);
        double least = std::numeric_limits<double>::infinity();
        for (int cut = 0; cut < 200; ++cut)
          least = std::min(least, simulated(named, randomCut(layers, 4 * named.leastPerRank, random), rates,
                                            microBatches, layer, head));
        EXPECT_LE(bound, least * (1 + 1e-9)) << name << " " << microBatches;
      }
}

// 1f1b on two ranks with four micro-batches, no layers to cut: whole backward passes, of which the input gradient comes
// first. q = 1 - (2/3) / (4 - 1/3) = 9/11. With x_0 = T / 4: T ((1 - 1/12) 3/2 (2/11) + (9/11) / 4) = 5/11 T = 1.
TEST(ContinuousCut, OfTwoRanksTakesMoreThanHalf) {
  Problem problem = problemOn(roundGpus(1, 2), 2);
  problem.model.layers = 1; // fewer than stages: nothing is known of whole layers
  double microBatch = problem.model.flops() * 64 / 65.5 / 4 / DeviceRate;
  EXPECT_NEAR(bubble(problem, "1f1b", 2, 4), 2.2 * microBatch, 1e-9 * microBatch);
  // Split: rank 1 waits for the forward passes of rank 0, of a twelfth of what that does. T (1/4 + (1 - 1/12) / 4) = 1.
  EXPECT_NEAR(bubble(problem, "zb-h1", 2, 4), 48.0 / 23 * microBatch, 1e-9 * microBatch);
  // naive: forward and back again, two thirds of the work, for each micro-batch.
  EXPECT_NEAR(bubble(problem, "naive", 2, 4), 4 * 2.0 / 3 * microBatch, 1e-9 * microBatch);
}

// Eight layers on four ranks, two each, since whole layers cannot make up for the bubble: with m = 8, (m + p - 1) times
// two layers, less what the weight gradients of the last micro-batch are hidden behind. The head counts nothing here.
TEST(WholeLayers, CannotBeDividedToHideBubbles) {
  Problem problem = withoutAttention(roundGpus(1, 4), 4, 8);
  problem.model.vocabulary = 1;
  problem.model.flopsPerToken -= headFlops - 6 * 64;
  double layer = layerFlops() * problem.model.tokens() / 8 / DeviceRate;
  double head = 6 * 64 * problem.model.tokens() / 8 / DeviceRate;
  // Three layers on any rank take 23 or more. With two on each, the last rank begins behind three stages and ends
  // before them: 8 * 2 + (2/3) * 6 - 2/3 + 2/3 layers, and the head for eight micro-batches but a third of one.
  double expected = 20 * layer + (8 - 1.0 / 3) * head;
  EXPECT_NEAR(bubble(problem, "1f1b", 4, 8), expected, 1e-6 * expected);
}

// The head is a layer and a third: the last rank, which has it, gets fewer layers.
TEST(WholeLayers, MakeRoomForTheHead) {
  Problem problem = withoutAttention(roundGpus(1, 2), 2, 4);
  double layer = layerFlops() * problem.model.tokens() / 64 / DeviceRate;
  double head = headFlops * problem.model.tokens() / 64 / DeviceRate;
  // Three layers before one take 192 on the first rank; two and two take 128 and 64 heads, or 87 layers, on the last.
  double last = (64 - 1.0 / 3) * head;
  double three = std::max(64 * 3 * layer, (64 - 1.0 / 3 + 2.0 / 3 * 3 + 1) * layer + last);
  double two = (2 * (64 - 1.0 / 3) + 2.0 / 3 * 2 + 2.0 / 3) * layer + last;
  double expected = std::min(three, two);
  EXPECT_NEAR(bubble(problem, "1f1b", 2, 64), expected, 1e-6 * expected);
}

// Two ranks in a V, four layers, one for each stage: the first rank has the first and the last stage, and the head. One
// layer and the head there and three on the other, which begins a forward pass of one layer later, would be the best.
TEST(WholeLayers, OfAVHaveTheHeadOnTheFirstRank) {
  Problem problem = withoutAttention(roundGpus(1, 2), 2, 4);
  double layer = layerFlops() * problem.model.tokens() / 4 / DeviceRate;
  double expected = (3 * 4 + 1.0 / 3) * layer;
  EXPECT_NEAR(bubble(problem, "zbv", 2, 4), expected, 1e-6 * expected);
}

/// Counted over all micro-batches.
std::vector<double> mostHeld(const Timetable &timetable) {
  std::vector<double> most;
  for (int32_t stage = 0; stage < timetable.stages(); ++stage) {
    double now = 0, peak = 0;
    for (const auto &entries : timetable.ranks)
      for (const timetables::Entry &entry : entries)
        if (entry.stage == stage) {
          now += entry.kind == Kind::Forward ? 1 : timetables::givesInputGradient(entry.kind) ? -1 : 0;
          peak = std::max(peak, now);
        }
    most.push_back(peak);
  }
  return most;
}

// A few rounds show what all keep, and never more.
TEST(Held, IsWhatStagesKeepInLongSteps) {
  Problem problem = problemOn(roundGpus(1, 4), 4);
  BoundContext context(problem);
  for (const Named &named : timetables::allNamed())
    for (int32_t ranks = 2; ranks <= 4; ++ranks)
      for (int32_t microBatches = 1; microBatches <= 48; ++microBatches) {
        timetables::Shape shape = {ranks, named.leastPerRank, microBatches};
        if (!timetables::findMisfit(named, shape).empty())
          continue;
        const TimetableFacts &facts = context.timetable(std::string(named.name), ranks, microBatches);
        std::vector<double> whole = mostHeld(timetables::generate(named, shape));
        ASSERT_EQ(facts.held.size(), whole.size());
        for (size_t stage = 0; stage < whole.size(); ++stage)
          EXPECT_LE(facts.held[stage], whole[stage]) << named.name << " " << ranks << " " << microBatches;
        if (named.name == "1f1b" || named.name == "gpipe") {
          EXPECT_EQ(facts.held, whole) << named.name << " " << ranks << " " << microBatches;
        }
      }
}

} // namespace
} // namespace dtc::plans
