// The search against evaluating everything, with made-up results that respect the bounds.
#include "timing/plans/relatives.h"
#include "timing/plans/search.h"

#include "test/timing/plans/models.h"
#include "timing/timetables/named.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

namespace dtc::plans {
namespace {

/// A number from 0 to 1 that belongs to a text and a seed: FNV-1a, and the mixing of splitmix64.
double drawOf(std::string_view text, unsigned seed) {
  uint64_t hash = 14695981039346656037u ^ seed;
  for (char letter : text)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((hash ^ (hash >> 31)) >> 11) / std::exp2(53);
}

/// Evaluates candidates by drawing figures. They respect all bounds, and what relatives say.
class Drawn {
public:
  Drawn(const Problem &problem, unsigned seed) : problem(problem), context(problem), seed(seed) {}

  Evaluated operator()(const Candidate &candidate) const {
    Evaluated result = alone(candidate);
    Candidate lighter = candidate;
    for (const char *recompute : {"none", "cheap"}) {
      if (candidate.recompute == recompute)
        break;
      lighter.recompute = recompute;
      result.seconds = std::max(result.seconds, lighterShare * (*this)(lighter).seconds * (1 + 1e-9));
    }
    return result;
  }

  bool isFloorGiven(const Candidate &candidate) const {
    return candidate.recompute == "none" || candidate.recompute == "cheap";
  }

private:
  Evaluated alone(const Candidate &candidate) const {
    Least least = leastOf(context, candidate);
    Evaluated result;
    result.candidate = candidate;
    std::string text = keyOf(candidate, true), family = keyOf(candidate, false);
    if (draw(text + "impossible") < 0.05)
      result.problem = "drawn"; // its step would take as long as those of others allow
    double floor = floorOf(family, candidate);
    result.seconds = std::max(least.seconds, floor * floorShare(problem, candidate)) * (1 + stretch(text));
    result.bytes = least.bytes * (1 + stretch(axesOf(candidate) + "bytes")) * (1 + 0.05 * draw(text + "bytes"));
    result.floor = isFloorGiven(candidate) ? floor : 0;
    double room = context.roomFor(candidate);
    result.lack = room > 0 ? std::max(0.0, result.bytes - room) : 0;
    addPasses(candidate, result);
    return result;
  }

  /// Known of every other group; otherwise 0.
  double busyOf(const Candidate &candidate) const {
    std::string group = keyOf(candidate, false) + candidate.recompute;
    bool isKnown = timetables::findNamed(candidate.timetable) && draw(group + "passes") >= 0.5;
    return isKnown ? floorOf(group, candidate) : 0;
  }

  void addPasses(const Candidate &candidate, Evaluated &result) const {
    int64_t ranks = candidate.sizeOf("pp");
    double update = ranks == 1 ? updateSeconds(context, candidate) : 0;
    for (Candidate fewer = candidate; --fewer.microBatches > 0;)
      if (double busy = busyOf(fewer); candidate.microBatches % fewer.microBatches == 0 && busy > 0)
        result.seconds = std::max(result.seconds, (context.wholeShare() * busy + update) * (1 + 1e-8));
    result.busy = busyOf(candidate);
    if (result.busy == 0)
      return;
    const timetables::Named *named = timetables::findNamed(candidate.timetable);
    auto parts = static_cast<double>(3 * named->leastPerRank * candidate.microBatches);
    StagePasses each = {result.busy / parts, result.busy / parts, result.busy / parts};
    result.passes.assign(static_cast<size_t>(ranks * named->leastPerRank), each);
    Relatives itself;
    itself.add(result);
    result.seconds = std::max(result.seconds, itself.boundOf(candidate, update) * (1 + 1e-8));
  }

  double draw(const std::string &text) const { return drawOf(text, seed); }
  /// Often nothing, so that there are ties, and bounds that are reached.
  double stretch(const std::string &text) const {
    double drawn = draw(text);
    return drawn < 0.3 ? 0 : drawn < 0.5 ? 0.25 : drawn - 0.5;
  }
  /// Those that may hold more than others are stretched alike, but for less than holdingShare.
  static std::string axesOf(const Candidate &candidate) {
    std::string text = candidate.splitsSequence ? "sp" : "";
    for (const char *axis : {"tp", "cp", "pp", "dp"})
      text += fmt::format(",{}={}", axis, candidate.sizeOf(axis));
    return text;
  }
  static std::string keyOf(const Candidate &candidate, bool isWhole) {
    const timetables::Named *named = timetables::findNamed(candidate.timetable);
    std::string text = fmt::format("{} {} ", candidate.splitsSequence, candidate.microBatches);
    for (const MeshAxis &axis : candidate.mesh)
      text += fmt::format("{}={},", axis.name, axis.size);
    text += named ? fmt::format(" {} {}", named->leastPerRank, static_cast<int>(named->placement)) : " none";
    return isWhole ? text + candidate.state + candidate.timetable + candidate.recompute : text;
  }
  /// The same for all of a family: more than the compute of some, less than that of others.
  double floorOf(const std::string &family, const Candidate &candidate) const {
    double most = static_cast<double>(problem.model.flops()) / static_cast<double>(candidate.devices()) / 2e12;
    return most * (0.5 + 2 * draw(family + "floor"));
  }

  const Problem &problem;
  BoundContext context;
  unsigned seed;
};

struct Case {
  Problem problem;
  std::vector<Candidate> candidates;
};

Case drawCase(unsigned seed) {
  std::mt19937 random(seed);
  auto pick = [&](std::vector<int64_t> values) {
    return values[std::uniform_int_distribution<size_t>(0, values.size() - 1)(random)];
  };
  int64_t devices = pick({1, 2, 3, 4, 6, 8});
  std::string cluster = seed % 3 == 0 ? roundGpus(1, 8) : roundGpus(4, 2);
  if (seed % 5 == 0) {
    cluster = roundGpus(1, 4) + "devices { name: \"H\" peaks { type: \"f32\" flops: 1.5e12 } memory_bytes: 2000000000 "
                                "memory_bandwidth: 1e12 }\nnodes { count: 1 device: \"H\" devices: 4 }\n"
                                "levels { name: \"outer\" units: 2 latency: 10e-6 bandwidth: 10e9 }\n";
  }
  Case result{problemOn(cluster, devices), {}};
  ModelFacts &model = result.problem.model;
  model.layers = pick({1, 2, 4, 6});
  model.batch = pick({1, 2, 4, 6});
  model.flopsPerToken *= static_cast<double>(model.layers + 2) / 16;
  if (seed % 7 != 0) { // in which some, all or none fit
    double parts = std::exp2(pick({-1, 0, 1, 2, 4, 6}));
    result.problem.memoryLimit = static_cast<uint64_t>(16 * model.parameters() / parts);
  }
  forEachCandidate(result.problem, {}, [&](const Candidate &each) { result.candidates.push_back(each); });
  return result;
}

struct Evaluating {
  explicit Evaluating(const Problem &problem, unsigned seed) : drawn(problem, seed) {}
  Evaluate function() {
    return [this](std::span<const Candidate> candidates) {
      largest = std::max(largest, candidates.size());
      std::vector<Evaluated> results;
      for (const Candidate &each : candidates) {
        results.push_back(drawn(each));
        asked.push_back(each);
      }
      return results;
    };
  }
  Drawn drawn;
  std::vector<Candidate> asked;
  size_t largest = 0;
};

/// The fastest that fits, the first of several.
std::optional<Evaluated> best(const Case &drawnCase, const Drawn &drawn) {
  std::optional<Evaluated> fastest;
  for (const Candidate &each : drawnCase.candidates)
    if (Evaluated result = drawn(each); result.fits() && (!fastest || result.seconds < fastest->seconds))
      fastest = result;
  return fastest;
}

int64_t prunedBy(const Outcome &outcome) {
  int64_t pruned = 0;
  for (const PrunedBy &by : outcome.pruned)
    pruned += by.candidates;
  return pruned;
}

class Searches : public testing::TestWithParam<unsigned> {};

TEST_P(Searches, FindWhatEvaluatingEverythingFinds) {
  for (unsigned seed = 25 * GetParam(); seed < 25 * GetParam() + 25; ++seed) {
    SCOPED_TRACE(seed);
    Case drawnCase = drawCase(seed);
    std::optional<Evaluated> expected = best(drawnCase, Drawn(drawnCase.problem, seed));
    for (size_t atOnce : {1, 8, 50}) {
      Evaluating evaluating(drawnCase.problem, seed);
      SearchOptions options;
      options.atOnce = atOnce;
      Outcome outcome = search(drawnCase.problem, {}, evaluating.function(), options);
      ASSERT_EQ(outcome.best.has_value(), expected.has_value());
      if (expected) {
        EXPECT_EQ(outcome.evaluated[*outcome.best].seconds, expected->seconds);
        EXPECT_EQ(outcome.evaluated[*outcome.best].candidate, expected->candidate);
      }
      EXPECT_TRUE(outcome.isComplete);
      EXPECT_EQ(outcome.considered, static_cast<int64_t>(drawnCase.candidates.size()));
      EXPECT_EQ(prunedBy(outcome) + static_cast<int64_t>(outcome.evaluated.size()), outcome.considered);
      EXPECT_EQ(std::set<Candidate>(evaluating.asked.begin(), evaluating.asked.end()).size(), evaluating.asked.size());
      EXPECT_LE(evaluating.largest, atOnce);
    }
  }
}

TEST_P(Searches, FindTheWholeFront) {
  for (unsigned seed = 25 * GetParam(); seed < 25 * GetParam() + 25; ++seed) {
    SCOPED_TRACE(seed);
    Case drawnCase = drawCase(seed);
    Evaluating evaluating(drawnCase.problem, seed);
    std::vector<std::pair<double, double>> all, expected, found;
    for (const Candidate &each : drawnCase.candidates)
      if (Evaluated result = evaluating.drawn(each); result.fits())
        all.emplace_back(result.seconds, result.bytes);
    std::ranges::sort(all);
    for (const auto &[seconds, bytes] : all) // of those that are no slower none is as small
      if (expected.empty() || bytes < expected.back().second)
        expected.emplace_back(seconds, bytes);
    SearchOptions options;
    options.objective = Objective::Front;
    Outcome outcome = search(drawnCase.problem, {}, evaluating.function(), options);
    for (size_t i : paretoFront(outcome.evaluated))
      found.emplace_back(outcome.evaluated[i].seconds, outcome.evaluated[i].bytes);
    EXPECT_EQ(found, expected);
    EXPECT_EQ(prunedBy(outcome) + static_cast<int64_t>(outcome.evaluated.size()), outcome.considered);
  }
}

TEST_P(Searches, FindAllThatAreNearlyAsFast) {
  for (unsigned seed = 25 * GetParam(); seed < 25 * GetParam() + 5; ++seed) {
    SCOPED_TRACE(seed);
    Case drawnCase = drawCase(seed);
    Evaluating evaluating(drawnCase.problem, seed);
    std::optional<Evaluated> fastest = best(drawnCase, evaluating.drawn);
    SearchOptions options;
    options.within = 0.1;
    Outcome outcome = search(drawnCase.problem, {}, evaluating.function(), options);
    std::set<Candidate> asked(evaluating.asked.begin(), evaluating.asked.end());
    for (const Candidate &each : drawnCase.candidates)
      if (Evaluated result = evaluating.drawn(each); result.fits() && result.seconds <= 1.1 * fastest->seconds) {
        EXPECT_TRUE(asked.contains(each));
      }
  }
}

// 200 problems, 25 in each case.
INSTANTIATE_TEST_SUITE_P(Random, Searches, testing::Range(0u, 8u));

TEST(Search, IsTheSameWheneverItRuns) {
  for (unsigned seed : {3, 4, 5}) {
    Case drawnCase = drawCase(seed);
    Evaluating first(drawnCase.problem, seed), second(drawnCase.problem, seed);
    search(drawnCase.problem, {}, first.function(), {});
    search(drawnCase.problem, {}, second.function(), {});
    EXPECT_EQ(first.asked, second.asked);
  }
}

Case eightDevices() {
  Case result{problemOn(roundGpus(1, 8), 8), {}};
  result.problem.model.batch = 8;
  forEachCandidate(result.problem, {}, [&](const Candidate &each) { result.candidates.push_back(each); });
  return result;
}

/// Each takes so many times what bounds say, and fits.
Evaluate times(const Problem &problem, double factor) {
  return [&problem, factor](std::span<const Candidate> candidates) {
    std::vector<Evaluated> results;
    for (const Candidate &each : candidates) {
      Evaluated &result = results.emplace_back();
      result.candidate = each;
      Least least = leastOf(BoundContext(problem), each);
      result.seconds = factor * least.seconds;
      result.bytes = least.bytes;
    }
    return results;
  };
}

TEST(Search, PrunesMostWhereBoundsAreReached) {
  Case all = eightDevices();
  Outcome outcome = search(all.problem, {}, times(all.problem, 1), {});
  EXPECT_LT(2 * outcome.evaluated.size(), all.candidates.size());
  EXPECT_TRUE(std::ranges::any_of(outcome.pruned, [](const PrunedBy &by) { return by.bound == "compute"; }));
}

// What is pruned is counted for the bound that pruned it, with the one that was closest.
TEST(Search, SaysWhatEachBoundPruned) {
  Case all = eightDevices();
  all.problem.memoryLimit = static_cast<uint64_t>(4 * all.problem.model.parameters());
  std::map<std::string_view, PrunedBy> expected;
  BoundContext context(all.problem);
  for (const Candidate &each : all.candidates) {
    Least least = leastOf(context, each);
    if (double room = context.roomFor(each); least.bytes > room) {
      PrunedBy &by = expected[least.ofBytes->name];
      by.closest = by.candidates == 0 ? least.bytes : std::min(by.closest, least.bytes);
      ++by.candidates;
    }
  }
  ASSERT_FALSE(expected.empty());
  Outcome outcome = search(all.problem, {}, times(all.problem, 1), {});
  for (const auto &[name, by] : expected) {
    auto found = std::ranges::find(outcome.pruned, name, &PrunedBy::bound);
    ASSERT_NE(found, outcome.pruned.end()) << name;
    EXPECT_EQ(found->candidates, by.candidates) << name;
    EXPECT_EQ(found->closest, by.closest) << name;
  }
}

TEST(Search, StopsAfterTheMost) {
  Case all = eightDevices();
  SearchOptions options;
  options.most = 13;
  Outcome outcome = search(all.problem, {}, times(all.problem, 100), options);
  EXPECT_EQ(outcome.evaluated.size(), 13u);
  EXPECT_FALSE(outcome.isComplete);
  EXPECT_LT(prunedBy(outcome) + 13, outcome.considered);
  // Where that is enough, nothing is missing.
  options.most = static_cast<int64_t>(all.candidates.size());
  EXPECT_TRUE(search(all.problem, {}, times(all.problem, 100), options).isComplete);
}

TEST(Search, FindsNothingWhereNothingFits) {
  Case all = eightDevices();
  all.problem.memoryLimit = 1 << 20;
  size_t evaluated = 0;
  Outcome outcome = search(
      all.problem, {},
      [&](std::span<const Candidate> candidates) {
        evaluated += candidates.size();
        return std::vector<Evaluated>(candidates.size());
      },
      {});
  EXPECT_EQ(outcome.best, std::nullopt);
  EXPECT_EQ(prunedBy(outcome), outcome.considered);
  EXPECT_EQ(evaluated, 0u);
}

// Products of a relative took longer than all of what was found, whose family has no floor.
TEST(Search, PrunesRelativesOfTheSlow) {
  Case all = eightDevices();
  double compute = all.problem.model.flops() / 8 / 2e12;
  Evaluate evaluate = [&](std::span<const Candidate> candidates) {
    std::vector<Evaluated> results = times(all.problem, 1)(candidates);
    for (Evaluated &result : results) {
      bool isData = result.candidate.sizeOf("dp") == 8;
      result.floor = isData ? 0 : 10 * compute; // of which tp=4 leaves half, as products are 16 deep
      result.seconds = isData ? 3 * compute : 20 * compute;
    }
    return results;
  };
  Outcome outcome = search(all.problem, {}, evaluate, {});
  auto byFloor = std::ranges::find(outcome.pruned, floorName, &PrunedBy::bound);
  ASSERT_NE(byFloor, outcome.pruned.end());
  EXPECT_GT(byFloor->candidates, 0);
  EXPECT_GE(byFloor->closest, 5 * compute * (1 - 1e-9));
}

// The first of a family to be evaluated tells what products take, if any may.
TEST(Search, BeginsFamiliesWithWhatGivesAFloor) {
  Case all = eightDevices();
  Evaluating evaluating(all.problem, 1);
  search(all.problem, {}, evaluating.function(), {});
  std::set<std::string> begun;
  for (const Candidate &each : evaluating.asked) {
    std::string family = fmt::format("{} {}", each.splitsSequence, each.microBatches);
    for (const MeshAxis &axis : each.mesh)
      family += fmt::format(" {}={}", axis.name, axis.size);
    if (each.sizeOf("pp") == 1 && begun.insert(family).second) {
      EXPECT_TRUE(evaluating.drawn.isFloorGiven(each)) << family;
    }
  }
}

// Of relatives of which nothing is known only one is evaluated at a time: it may prune the others.
TEST(Search, BeginsGroupsWithOne) {
  Case all = eightDevices();
  Evaluating evaluating(all.problem, 1);
  Evaluate evaluate = evaluating.function();
  std::set<std::string> known;
  SearchOptions options;
  options.atOnce = 100;
  search(
      all.problem, {},
      [&](std::span<const Candidate> candidates) {
        std::set<std::string> begun;
        for (const Candidate &each : candidates) {
          if (each.sizeOf("pp") > 1)
            continue;
          std::string group = fmt::format("{} {} {}", each.splitsSequence, each.microBatches, each.recompute);
          for (const MeshAxis &axis : each.mesh)
            group += fmt::format(" {}={}", axis.name, axis.size);
          EXPECT_TRUE(known.contains(group) || begun.insert(group).second) << group;
        }
        known.insert(begun.begin(), begun.end());
        return evaluate(candidates);
      },
      options);
  EXPECT_GT(known.size(), 5u);
}

Evaluated found(double seconds, double bytes, int64_t devices = 1) {
  Evaluated evaluated;
  evaluated.seconds = seconds;
  evaluated.bytes = bytes;
  evaluated.candidate.mesh = {{"dp", devices}};
  return evaluated;
}

TEST(ParetoFront, HasWhatNothingIsBetterThan) {
  std::vector<Evaluated> all = {found(3, 1), found(1, 5), found(2, 2), found(2, 3), found(2, 2), found(4, 1)};
  all.push_back(found(0.5, 0.5));
  all.back().lack = 1;
  all.push_back(found(0.1, 0.1));
  all.back().problem = "none";
  EXPECT_EQ(paretoFront(all), (std::vector<size_t>{1, 2, 0}));
}

TEST(ParetoFront, CountsDevices) {
  std::vector<Evaluated> all = {found(1, 1, 8), found(2, 1, 4), found(2, 1, 6), found(3, 2, 2)};
  EXPECT_EQ(paretoFront(all), (std::vector<size_t>{0, 1, 3}));
  EXPECT_TRUE(paretoFront({}).empty());
}

TEST(ParetoFront, IsThatOfComparingAll) {
  std::mt19937 random(2);
  auto pick = [&] { return std::uniform_int_distribution<int>(1, 6)(random); };
  for (int round = 0; round < 300; ++round) {
    std::vector<Evaluated> all;
    for (int i = 0; i < 20; ++i)
      all.push_back(found(pick(), pick(), pick()));
    auto keyOf = [&](size_t i) { return std::tuple(all[i].seconds, all[i].bytes, all[i].candidate.devices()); };
    std::set<size_t> expected;
    for (size_t i = 0; i < all.size(); ++i) {
      bool isBeaten = false;
      for (size_t j = 0; j < all.size(); ++j) {
        auto [s, b, d] = keyOf(i);
        auto [t, c, e] = keyOf(j);
        isBeaten |= t <= s && c <= b && e <= d && (keyOf(i) != keyOf(j) || j < i);
      }
      if (!isBeaten)
        expected.insert(i);
    }
    std::vector<size_t> front = paretoFront(all);
    EXPECT_EQ(std::set<size_t>(front.begin(), front.end()), expected);
    EXPECT_TRUE(std::ranges::is_sorted(front, {}, keyOf));
  }
}

} // namespace
} // namespace dtc::plans
