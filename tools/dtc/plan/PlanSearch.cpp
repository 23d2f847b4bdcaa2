#include "tools/dtc/plan/PlanSearch.h"

#include "timing/plans/pool.h"
#include "tools/dtc/plan/ClusterSize.h"
#include "tools/dtc/plan/NoCandidate.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace dtc {

using plans::Candidate;
using plans::Evaluated;
using plans::Problem;

PlanSearch::PlanSearch(Problem problem, std::vector<plans::Constraint> constraints, EvaluateOn evaluate,
                       PlanLimits limits)
    : whole(std::move(problem)), constrained(std::move(constraints)), evaluateOn(std::move(evaluate)), limits(limits) {}

Problem PlanSearch::problemOf(int64_t devices, bool mayGrow) const {
  Problem problem = whole;
  problem.devices = devices;
  if (mayGrow)
    problem.cluster = withMoreNodes(problem.cluster, devices);
  return problem;
}

PlanSearch PlanSearch::without(size_t constraint) const {
  PlanSearch other = *this;
  other.constrained.erase(other.constrained.begin() + static_cast<std::ptrdiff_t>(constraint));
  return other;
}

std::vector<Evaluated> PlanSearch::evaluate(const Problem &problem, std::span<const Candidate> candidates) {
  std::vector<Candidate> fresh;
  for (const Candidate &candidate : candidates)
    if (!known.contains(candidate) && std::ranges::find(fresh, candidate) == fresh.end())
      fresh.push_back(candidate);
  if (!fresh.empty()) {
    std::vector<Evaluated> found = evaluateOn(problem, fresh);
    for (size_t i = 0; i < fresh.size(); ++i)
      known.emplace(fresh[i], std::move(found.at(i)));
  }
  std::vector<Evaluated> all;
  all.reserve(candidates.size());
  for (const Candidate &candidate : candidates)
    all.push_back(known.at(candidate));
  return all;
}

static size_t countFitting(const std::vector<Evaluated> &evaluated) {
  return static_cast<size_t>(std::ranges::count_if(evaluated, &Evaluated::fits));
}

/// More plans than the search for the best one evaluated, until there are enough that fit, or as many as are worth it.
std::vector<Evaluated> PlanSearch::withOthers(const PlannedNumber &planned, const plans::Pool &pool,
                                              plans::SearchOptions options) {
  constexpr int64_t most = 24;
  auto onThese = [&](std::span<const Candidate> candidates) { return evaluate(planned.problem, candidates); };
  std::vector<Evaluated> all = planned.outcome.evaluated;
  std::set<Candidate> has;
  for (const Evaluated &each : all)
    has.insert(each.candidate);
  for (double within : {0.25, 1.0, 4.0}) {
    if (!planned.outcome.best || !planned.outcome.isComplete || countFitting(all) >= limits.rows)
      break;
    options.within = within;
    options.most = static_cast<int64_t>(all.size()) + most;
    for (Evaluated &each : plans::search(pool, onThese, options).evaluated)
      if (has.insert(each.candidate).second)
        all.push_back(std::move(each));
  }
  return all;
}

PlannedNumber PlanSearch::plan(int64_t devices) {
  PlannedNumber planned;
  planned.problem = problemOf(devices);
  requireCandidates(planned.problem, constrained);
  auto onThese = [&](std::span<const Candidate> candidates) { return evaluate(planned.problem, candidates); };
  plans::SearchOptions options;
  options.most = limits.most;
  options.within = plans::aboutEqual;
  plans::Pool pool(planned.problem, constrained);
  planned.outcome = plans::search(pool, onThese, options);
  std::vector<Evaluated> all = withOthers(planned, pool, options);
  for (size_t index : plans::ranked(planned.problem, all)) {
    if (planned.rows.size() == limits.rows)
      break;
    planned.rows.push_back({all[index], ""});
  }
  return planned;
}

std::vector<Evaluated> PlanSearch::front(int64_t devices) {
  Problem problem = problemOf(devices);
  if (plans::isEmpty(problem, constrained))
    return {};
  auto onThese = [&](std::span<const Candidate> candidates) { return evaluate(problem, candidates); };
  plans::SearchOptions options;
  options.objective = plans::Objective::Front;
  options.most = limits.most;
  plans::Outcome outcome = plans::search(problem, constrained, onThese, options);
  std::vector<Evaluated> front;
  for (size_t index : plans::paretoFront(outcome.evaluated))
    front.push_back(std::move(outcome.evaluated[index]));
  return front;
}

/// Candidates whose least bytes are no more than there is room for, those that take least first.
static std::vector<uint32_t> byLeastBytes(const plans::Pool &pool) {
  std::vector<uint32_t> numbers(pool.entries.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  std::ranges::stable_sort(numbers, {}, [&](uint32_t number) { return pool.entries[number].bytes; });
  return numbers;
}

bool PlanSearch::hasPlan(const Problem &problem, int64_t most, bool &isProven) {
  constexpr size_t atOnce = 8;
  plans::Pool pool(problem, constrained);
  std::vector<uint32_t> numbers = byLeastBytes(pool);
  size_t end = numbers.size();
  if (most > 0 && std::cmp_greater(end, most)) {
    end = static_cast<size_t>(most);
    isProven = false; // unless one of these fits
  }
  for (size_t at = 0; at < end; at += atOnce) {
    std::vector<Candidate> part;
    for (size_t i = at; i < std::min(at + atOnce, end); ++i)
      part.push_back(pool.candidateOf(numbers[i]));
    if (std::ranges::any_of(evaluate(problem, part), &Evaluated::fits))
      return true;
  }
  return false;
}

std::optional<PlanSearch::Least> PlanSearch::leastDevices(int64_t first, int64_t last, int64_t most, bool mayGrow) {
  Least least;
  for (least.devices = first; least.devices <= last; ++least.devices) {
    bool isProven = true;
    if (hasPlan(problemOf(least.devices, mayGrow), most, isProven))
      return least;
    least.isProven &= isProven;
  }
  return std::nullopt;
}

/// The candidates that lack least by their bounds, ascending; of equal ones the first.
std::vector<PlanSearch::Shortage> PlanSearch::leastBounds(const Problem &problem, size_t count) const {
  plans::BoundContext context(problem);
  plans::BoundInputs inputs(context);
  std::vector<Shortage> least;
  plans::forEachCandidate(problem, constrained, [&](const Candidate &candidate) {
    inputs.set(candidate);
    double bytes = plans::leastOf(inputs).bytes - inputs.room;
    if (least.size() == count && bytes >= least.back().bytes)
      return;
    least.insert(std::ranges::upper_bound(least, bytes, {}, &Shortage::bytes), {candidate, bytes, true});
    if (least.size() > count)
      least.pop_back();
  });
  return least;
}

std::optional<PlanSearch::Shortage> PlanSearch::leastLack(const Problem &problem) {
  constexpr size_t most = 400; // evaluations
  const size_t before = known.size();
  std::optional<Shortage> least;
  for (const Shortage &bound : leastBounds(problem, most + before + 1)) {
    if (least && least->bytes <= bound.bytes)
      break;
    if (!known.contains(bound.candidate) && known.size() == before + most)
      return bound.bytes > 0 || !least ? bound : least; // a bound is a figure, too, if it is a lack
    Evaluated its = evaluate(problem, {&bound.candidate, 1}).front();
    if (its.problem.empty() && (!least || its.lack < least->bytes))
      least = {bound.candidate, its.lack, false};
  }
  return least;
}

} // namespace dtc
