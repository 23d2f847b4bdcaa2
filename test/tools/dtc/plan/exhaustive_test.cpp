// What the search finds is what evaluating every candidate finds, on random models and clusters: the fastest plan, to
// the bit, whether any fits, the least number of devices, and the front of memory and time.
#include "test/long_tests.h"
#include "test/tools/dtc/plan/plan_models.h"
#include "timing/plans/dimensions.h"
#include "timing/plans/holding.h"
#include "timing/plans/relatives.h"
#include "timing/timetables/named.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <set>

namespace dtc::test {
namespace {

using plans::Candidate;
using plans::Evaluated;
using plans::Problem;

/// The draws of one case. Unlike those of the standard's distributions, they are the same everywhere.
class Draws {
public:
  explicit Draws(uint32_t seed) : engine(seed) {}
  template <typename Value> Value oneOf(std::initializer_list<Value> values) {
    return *(values.begin() + engine() % values.size());
  }

private:
  std::mt19937 engine;
};

/// A model on a cluster.
struct Case {
  explicit Case(uint32_t seed);

  /// What is left out so that no more than `most` candidates remain.
  std::vector<plans::Constraint> constraintsFor(const Problem &problem, size_t most) const;
  Problem problem(int64_t devices) const {
    Problem problem = problemOf(*evaluator, cluster, devices);
    problem.memoryLimit = memoryLimit;
    problem.margin = margin;
    return problem;
  }

  std::unique_ptr<ModelFolder> model;
  timing::Cluster cluster;
  std::unique_ptr<Evaluator> evaluator;
  int64_t devices = 1; ///< of the cluster
  uint64_t memoryLimit = 0;
  double margin = 0;
  bool isUneven = false; ///< the devices differ
};

/// Bytes of f32 parameters, gradients and two moments; and about as much as a micro-batch's activations take.
double bytesOf(const plans::ModelFacts &facts) {
  return 16 * facts.parameters() +
         4 * facts.tokens() * static_cast<double>(16 * facts.layers * facts.hidden + 2 * facts.vocabulary);
}

Case::Case(uint32_t seed) {
  Draws draws(seed);
  ModelSizes sizes;
  sizes.isLlama = draws.oneOf({false, true});
  sizes.isTied = draws.oneOf({false, true});
  sizes.layers = draws.oneOf<int64_t>({1, 2, 3, 4, 5, 6});
  sizes.heads = draws.oneOf<int64_t>({2, 4});
  sizes.keyHeads = sizes.isLlama ? draws.oneOf<int64_t>({1, 2}) : sizes.heads;
  sizes.hidden = sizes.heads * draws.oneOf<int64_t>({4, 8});
  sizes.mlp = draws.oneOf<int64_t>({24, 32, 64});
  sizes.vocabulary = draws.oneOf<int64_t>({13, 16, 64});
  sizes.positions = draws.oneOf<int64_t>({8, 16});
  model = std::make_unique<ModelFolder>(sizes);
  CompileRequest request = requestFor(*model, draws.oneOf<int64_t>({4, 8}));
  if (draws.oneOf({false, true}))
    request.assignments.push_back("compute=bf16");
  if (draws.oneOf({0, 1, 2}) == 0)
    request.assignments.push_back("gradients=bf16");
  int64_t nodes = draws.oneOf<int64_t>({1, 2, 4}), onNode = nodes == 1 ? 4 : draws.oneOf<int64_t>({1, 2});
  devices = std::min<int64_t>(4, nodes * onNode);
  double bandwidth = draws.oneOf({5e7, 1e9, 1e10}), slowness = nodes > 1 ? draws.oneOf({1.0, 1.0, 2.5}) : 1;
  isUneven = slowness != 1 && devices == nodes * onNode;
  evaluator = std::make_unique<Evaluator>(request, clusterOf(nodes, onNode, bandwidth, slowness), 1);
  double wanted = bytesOf(evaluator->facts()) * draws.oneOf({0.15, 0.4, 0.7, 1.0});
  auto memory = static_cast<uint64_t>(wanted);
  int kind = draws.oneOf({0, 1, 2}); // whose memory is small
  cluster = clusterOf(nodes, onNode, bandwidth, slowness, kind == 1 ? memory : 0);
  memoryLimit = kind == 2 ? memory : 0;
  margin = draws.oneOf({0.0, 0.1});
  evaluator = std::make_unique<Evaluator>(request, cluster, 2);
}

std::vector<Candidate> candidatesOf(const Problem &problem, const std::vector<plans::Constraint> &constraints) {
  std::vector<Candidate> candidates;
  plans::forEachCandidate(problem, constraints, [&](const Candidate &each) { candidates.push_back(each); });
  return candidates;
}

std::vector<plans::Constraint> Case::constraintsFor(const Problem &problem, size_t most) const {
  std::vector<plans::Constraint> constraints;
  for (const char *word : {"regather", "zero2", "v-min", "v-half", "gpipe", "naive", "selective", "dualpipev", "zb-h2",
                           "interleaved", "zero1", "none", "zb-h1", "sp=on", "hsdp"}) {
    if (candidatesOf(problem, constraints).size() <= most)
      break;
    constraints.push_back(plans::parseConstraint(word, /*isFixed=*/false));
  }
  return constraints;
}

/// Everything about a problem, evaluated.
struct Exhaustive {
  Exhaustive(Evaluator &evaluator, const Problem &problem, const std::vector<plans::Constraint> &constraints)
      : evaluated(evaluator.evaluate(problem, candidatesOf(problem, constraints))) {}

  const Evaluated &of(const Candidate &candidate) const {
    return *std::ranges::find(evaluated, candidate, &Evaluated::candidate);
  }
  /// Of the fastest that fits; infinite where none does.
  double best() const {
    double seconds = std::numeric_limits<double>::infinity();
    for (const Evaluated &each : evaluated)
      if (each.fits())
        seconds = std::min(seconds, each.seconds);
    return seconds;
  }
  /// Memory and time of what fits and is not beaten in both.
  std::set<std::pair<double, double>> front() const {
    std::set<std::pair<double, double>> front;
    for (const Evaluated &each : evaluated) {
      bool isBeaten = std::ranges::any_of(evaluated, [&](const Evaluated &other) {
        return other.fits() && other.bytes <= each.bytes && other.seconds <= each.seconds &&
               (other.bytes < each.bytes || other.seconds < each.seconds);
      });
      if (each.fits() && !isBeaten)
        front.insert({each.bytes, each.seconds});
    }
    return front;
  }

  std::vector<Evaluated> evaluated;
};

std::set<std::pair<double, double>> frontOf(const plans::Outcome &outcome) {
  std::set<std::pair<double, double>> front;
  for (size_t number : plans::paretoFront(outcome.evaluated))
    front.insert({outcome.evaluated[number].bytes, outcome.evaluated[number].seconds});
  return front;
}

/// Whether their ranks have the same stages, and all but state, timetable, micro-batches and recomputation is equal.
bool areAlike(const Candidate &one, const Candidate &other) {
  const timetables::Named &first = *timetables::findNamed(one.timetable);
  const timetables::Named &second = *timetables::findNamed(other.timetable);
  bool haveSameStages =
      one.sizeOf("pp") == 1 || (first.placement == second.placement && first.leastPerRank == second.leastPerRank);
  return haveSameStages && one.mesh == other.mesh && one.splitsSequence == other.splitsSequence;
}

bool areRelated(const Candidate &one, const Candidate &other) {
  return areAlike(one, other) && one.microBatches == other.microBatches;
}

/// No bound is above what it bounds: neither those by formulas, nor the floors of families.
void expectBoundsHold(const Problem &problem, const std::vector<Evaluated> &evaluated) {
  plans::BoundContext context(problem);
  for (const Evaluated &each : evaluated) {
    if (!each.problem.empty())
      continue;
    SCOPED_TRACE(each.candidate.text());
    plans::Least least = plans::leastOf(context, each.candidate);
    EXPECT_LE(least.bytes, each.bytes) << least.ofBytes->name;
    EXPECT_LE(least.seconds, each.seconds) << least.ofSeconds->name;
    EXPECT_GT(each.floor, 0);
    for (const Evaluated &other : evaluated)
      if (other.problem.empty() && areRelated(each.candidate, other.candidate))
        EXPECT_LE(each.floor, other.seconds) << "the floor of the family of " << other.candidate.text();
  }
}

struct Counts {
  size_t candidates = 0, impossible = 0, tooLarge = 0, unevenCases = 0, unsolved = 0, pruned = 0;
  size_t raised = 0, raisedByFewer = 0, raisedByHolding = 0; ///< bounds that relatives have made better
};

/// Nothing takes hardly less memory than what holds no more.
void expectHoldingHolds(const Problem &problem, const std::vector<Evaluated> &evaluated, Counts &counts) {
  plans::BoundContext context(problem);
  if (context.roomOfAll() == 0)
    return;
  std::vector<plans::Holding> holding;
  for (const Evaluated &each : evaluated)
    holding.emplace_back(plans::BoundInputs(context, each.candidate));
  auto haveSameAxes = [](const Candidate &one, const Candidate &other) {
    return std::ranges::all_of(std::array{"tp", "cp", "pp", "dp"},
                               [&](const char *axis) { return one.sizeOf(axis) == other.sizeOf(axis); });
  };
  for (size_t i = 0; i < evaluated.size(); ++i)
    for (size_t k = 0; k < evaluated.size(); ++k) {
      const Evaluated &one = evaluated[i], &other = evaluated[k];
      if (!one.problem.empty() || !other.problem.empty() || !haveSameAxes(one.candidate, other.candidate) ||
          !plans::holdsMore(holding[i], holding[k]))
        continue;
      double bound = plans::holdingShare * other.bytes;
      EXPECT_GE(one.bytes, bound) << one.candidate.text() << " holds more than " << other.candidate.text();
      counts.raisedByHolding += bound > plans::leastOf(context, one.candidate).bytes;
    }
}

/// No step is shorter than what any relative says by its kernels, by having fewer micro-batches, or by recomputing
/// less.
void expectRelativesHold(const Problem &problem, const std::vector<Evaluated> &evaluated, Counts &counts) {
  plans::BoundContext context(problem);
  auto splitsBackward = [&](const Candidate &each) {
    return context.timetable(each.timetable, each.sizeOf("pp"), each.microBatches).splitsBackward;
  };
  for (const Evaluated &each : evaluated) {
    if (!each.problem.empty() || each.passes.empty())
      continue;
    plans::Relatives relatives;
    relatives.add(each);
    for (const Evaluated &other : evaluated) {
      if (!other.problem.empty() || !areAlike(each.candidate, other.candidate) ||
          other.candidate.microBatches % each.candidate.microBatches != 0)
        continue;
      SCOPED_TRACE(each.candidate.text() + " says it about " + other.candidate.text());
      if (each.candidate.recompute == other.candidate.recompute &&
          splitsBackward(each.candidate) == splitsBackward(other.candidate)) {
        double update = other.candidate.sizeOf("pp") == 1 ? plans::updateSeconds(context, other.candidate) : 0;
        bool hasMore = other.candidate.microBatches != each.candidate.microBatches;
        double bound = hasMore ? context.wholeShare() * relatives.busy() * (1 - 1e-9) + update
                               : relatives.boundOf(other.candidate, update);
        EXPECT_LE(bound, other.seconds);
        (hasMore ? counts.raisedByFewer : counts.raised) += bound > plans::leastOf(context, other.candidate).seconds;
      }
      Candidate lighter = other.candidate;
      lighter.recompute = each.candidate.recompute;
      bool isLighter =
          lighter.recompute == "none" || (lighter.recompute == "cheap" && other.candidate.recompute != "none");
      if (each.candidate == lighter && isLighter)
        EXPECT_LE(plans::lighterShare * each.seconds, other.seconds);
    }
  }
}

/// Compares all that a search finds. Returns whether anything fits.
bool compare(Evaluator &evaluator, const Problem &problem, const std::vector<plans::Constraint> &constraints,
             Counts &counts) {
  Exhaustive all(evaluator, problem, constraints);
  expectBoundsHold(problem, all.evaluated);
  expectRelativesHold(problem, all.evaluated, counts);
  expectHoldingHolds(problem, all.evaluated, counts);
  plans::Evaluate evaluate = [&](std::span<const Candidate> candidates) {
    std::vector<Evaluated> found;
    for (const Candidate &each : candidates)
      found.push_back(all.of(each));
    return found;
  };
  double best = all.best();
  bool fits = best < std::numeric_limits<double>::infinity();
  for (double within : {0.0, 0.25}) {
    plans::Outcome outcome = plans::search(problem, constraints, evaluate, {.within = within});
    EXPECT_TRUE(outcome.isComplete);
    EXPECT_EQ(outcome.best.has_value(), fits);
    if (outcome.best) {
      EXPECT_TRUE(outcome.evaluated[*outcome.best].fits());
      EXPECT_EQ(outcome.evaluated[*outcome.best].seconds, best);
    }
    auto pruned = static_cast<size_t>(outcome.considered) - outcome.evaluated.size();
    size_t said = 0;
    for (const plans::PrunedBy &each : outcome.pruned)
      said += static_cast<size_t>(each.candidates);
    EXPECT_EQ(static_cast<size_t>(outcome.considered), all.evaluated.size());
    EXPECT_EQ(said, pruned);
    counts.pruned += pruned;
    for (const Evaluated &each : all.evaluated)
      if (within > 0 && each.fits() && each.seconds <= (1 + within) * best)
        EXPECT_TRUE(std::ranges::count(outcome.evaluated, each.candidate, &Evaluated::candidate))
            << each.candidate.text();
  }
  EXPECT_EQ(frontOf(plans::search(problem, constraints, evaluate, {.objective = plans::Objective::Front})),
            all.front());
  counts.candidates += all.evaluated.size();
  for (const Evaluated &each : all.evaluated) {
    counts.impossible += !each.problem.empty();
    counts.tooLarge += each.problem.empty() && each.lack > 0;
  }
  return fits;
}

// The least number of devices is that of the first problem with a plan that fits; compare() says for each of them that
// the search finds one exactly if there is one.
TEST(PlanSearch, FindsWhatTryingEverythingFinds) {
  const bool isLong = testsMayBeLong();
  const uint32_t cases = isLong ? 60 : 24;
  const size_t most = isLong ? 300 : 36;
  Counts counts;
  std::set<int64_t> leastDevices;
  for (uint32_t seed = 1; seed <= cases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case setup(seed);
    counts.unevenCases += setup.isUneven;
    int64_t least = 0;
    for (int64_t devices = 1; devices <= setup.devices; devices *= 2) {
      SCOPED_TRACE(std::to_string(devices) + " devices");
      Problem problem = setup.problem(devices);
      bool fits = compare(*setup.evaluator, problem, setup.constraintsFor(problem, most), counts);
      counts.unsolved += !fits;
      least = fits && least == 0 ? devices : least;
    }
    leastDevices.insert(least);
  }
  RecordProperty("candidates", static_cast<int>(counts.candidates));
  EXPECT_GE(counts.candidates, 500U);
  EXPECT_GT(counts.candidates - counts.impossible, 400U) << "most of them can be placed";
  EXPECT_GT(counts.tooLarge, 20U);
  EXPECT_GE(counts.unevenCases, 3U);
  EXPECT_GT(counts.unsolved, 2U) << "numbers of devices that are too few";
  EXPECT_GE(leastDevices.size(), 2U) << "the least number of devices differs";
  EXPECT_GT(counts.pruned, 100U) << "bounds save evaluations";
  EXPECT_GT(counts.raised, 100U) << "relatives say more than formulas";
  EXPECT_GT(counts.raisedByFewer, 100U);
  EXPECT_GT(counts.raisedByHolding, 100U);
}

// The evaluator itself in the place of what was evaluated before.
TEST(PlanSearch, AsksTheEvaluator) {
  Case setup(3);
  Problem problem = setup.problem(setup.devices);
  std::vector<plans::Constraint> constraints = setup.constraintsFor(problem, 36);
  auto evaluate = [&](std::span<const Candidate> candidates) { return setup.evaluator->evaluate(problem, candidates); };
  plans::Outcome outcome = plans::search(problem, constraints, evaluate, {});
  double best = Exhaustive(*setup.evaluator, problem, constraints).best();
  ASSERT_EQ(outcome.best.has_value(), best < std::numeric_limits<double>::infinity());
  if (outcome.best)
    EXPECT_EQ(outcome.evaluated[*outcome.best].seconds, best);
}

} // namespace
} // namespace dtc::test
