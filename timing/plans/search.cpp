#include "timing/plans/search.h"

#include "runtime/abi/recompute.h"
#include "runtime/support/error.h"
#include "timing/plans/relatives.h"
#include "timing/timetables/named.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <queue>
#include <tuple>

namespace dtc::plans {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// In the order in which Pool::pruned has them behind the bounds.
constexpr std::array<std::string_view, 3> namesOfRelatives = {floorName, kernelsName, lighterName};

/// Values of one part of candidates, by number.
template <typename Value> class Numbered {
public:
  uint32_t numberOf(const Value &value) {
    auto [entry, isNew] = numbers.try_emplace(value, static_cast<uint32_t>(values.size()));
    if (isNew)
      values.push_back(value);
    return entry->second;
  }
  const Value &operator[](uint32_t number) const { return values[number]; }
  size_t size() const { return values.size(); }

private:
  std::map<Value, uint32_t> numbers;
  std::vector<Value> values;
};

/// What candidates of a family have in common: mesh, split of the sequence, micro-batches, and what stages ranks have.
using FamilyKey = std::tuple<uint32_t, bool, int64_t, int>;

/// A candidate that is not pruned at once. There may be millions.
struct Entry {
  double bytes = 0, seconds = 0; ///< bounds
  uint32_t family = 0, group = 0;
  uint16_t state = 0, timetable = 0, recompute = 0;
  uint8_t bound = 0;             ///< of seconds, in bounds()
  bool givesFloor = false;       ///< no product is recomputed
  bool isDone = false;           ///< evaluated, or pruned, or in the round that is being chosen
  bool isEvaluated = false;      ///< then `seconds` are those of its step, unless there is no such program
  uint32_t plan = 0;             ///< the same for those that differ only in what is recomputed
};

struct Family {
  std::vector<uint32_t> members; ///< in order
  double floor = 0;              ///< the largest that a member had
  bool isKnown = false;          ///< a member was evaluated, or will be in the round that is being chosen
};

/// Relatives of a family that recompute the same and split backward passes alike (relatives.h).
struct Group {
  Relatives relatives;
  bool isKnown = false; ///< as a family's
};

/// Where stages are: one a rank, several in a loop, or in a V. Other timetables have one a rank.
int stagesOf(const Candidate &candidate) {
  const timetables::Named *named = timetables::findNamed(candidate.timetable);
  if (candidate.sizeOf("pp") == 1 || !named)
    return 0;
  return 2 * named->leastPerRank + (named->placement == timetables::Placement::V);
}

/// Whether no product is recomputed.
bool keepsProducts(const Candidate &candidate) {
  auto how = abi::parseRecompute(candidate.recompute);
  return how && (how->kind == abi::Recompute::Kind::None || how->kind == abi::Recompute::Kind::Cheap);
}

/// All candidates that bounds of bytes leave, in a few words each.
class Pool {
public:
  Pool(const Problem &problem, const std::vector<Constraint> &constraints) : problem(problem), context(problem) {
    if (problem.devices < 1)
      return;
    forEachCandidate(problem, constraints, [&](const Candidate &candidate) { add(candidate); });
    cheapOf.resize(plans.size(), none);
    for (uint32_t number = 0; number < entries.size(); ++number)
      if (recomputations[entries[number].recompute] == "cheap")
        cheapOf[entries[number].plan] = number;
  }

  static constexpr uint32_t none = std::numeric_limits<uint32_t>::max();
  /// The candidate that recomputes only what is cheap and is otherwise as this one, which recomputes more; or none.
  uint32_t lighterThan(uint32_t number) const {
    return entries[number].givesFloor ? none : cheapOf[entries[number].plan];
  }

  Candidate candidateOf(uint32_t number) const {
    const Entry &entry = entries[number];
    auto [mesh, splitsSequence, microBatches, stages] = families[entry.family];
    Candidate candidate;
    candidate.mesh = meshes[mesh];
    candidate.splitsSequence = splitsSequence;
    candidate.microBatches = microBatches;
    candidate.state = states[entry.state];
    candidate.timetable = timetables[entry.timetable];
    candidate.recompute = recomputations[entry.recompute];
    return candidate;
  }

  size_t numberOfFamilies() const { return families.size(); }
  size_t numberOfGroups() const { return groups.size(); }

  const Problem &problem;
  const BoundContext context;
  int64_t considered = 0;
  std::vector<Entry> entries; ///< in the order of candidates
  /// By each bound, the floor, and relatives.
  std::vector<PrunedBy> pruned = std::vector<PrunedBy>(bounds().size() + 3);

  void countPruned(size_t bound, double value) {
    PrunedBy &by = pruned[bound];
    by.closest = by.candidates == 0 ? value : std::min(by.closest, value);
    ++by.candidates;
  }

private:
  void add(const Candidate &candidate) {
    ++considered;
    Least least = leastOf(context, candidate);
    if (double room = context.roomFor(candidate); room > 0 && least.bytes > room)
      return countPruned(indexOf(least.ofBytes), least.bytes);
    if (entries.size() == std::numeric_limits<uint32_t>::max())
      throw Error(ExitCode::BadInput, fmt::format("there are more than {} plans; fix some of their parts, as in --fix "
                                                  "tp=8",
                                                  entries.size()));
    Entry &entry = entries.emplace_back();
    entry.bytes = least.bytes;
    entry.seconds = least.seconds;
    entry.bound = static_cast<uint8_t>(indexOf(least.ofSeconds));
    entry.family = families.numberOf({meshes.numberOf(candidate.mesh), candidate.splitsSequence,
                                      candidate.microBatches, stagesOf(candidate)});
    entry.state = static_cast<uint16_t>(states.numberOf(candidate.state));
    entry.timetable = static_cast<uint16_t>(timetables.numberOf(candidate.timetable));
    entry.recompute = static_cast<uint16_t>(recomputations.numberOf(candidate.recompute));
    entry.givesFloor = keepsProducts(candidate);
    bool splits = context.timetable(candidate.timetable, candidate.sizeOf("pp"), candidate.microBatches).splitsBackward;
    entry.group = groups.numberOf({entry.family, entry.recompute, splits});
    entry.plan = plans.numberOf({entry.family, entry.state, entry.timetable});
  }

  static size_t indexOf(const Bound *bound) { return static_cast<size_t>(bound - bounds().data()); }

  Numbered<std::vector<MeshAxis>> meshes;
  Numbered<std::string> states, timetables, recomputations;
  Numbered<FamilyKey> families;
  Numbered<std::tuple<uint32_t, uint16_t, bool>> groups; ///< family, recomputation, whether backward passes are split
  Numbered<std::tuple<uint32_t, uint16_t, uint16_t>> plans; ///< family, state, timetable
  std::vector<uint32_t> cheapOf;                            ///< of these
};

/// What was found so far, and whether anything with some bounds can be as good.
class Found {
public:
  explicit Found(const SearchOptions &options) : options(options) {}

  void add(const Evaluated &evaluated) {
    if (!evaluated.fits())
      return;
    fastest = std::min(fastest, evaluated.seconds);
    if (options.objective == Objective::Front)
      addToFront({evaluated.seconds, evaluated.bytes});
  }

  bool prunes(double bytes, double seconds) const {
    if (options.objective == Objective::Time)
      return seconds > fastest * (1 + options.within);
    auto slower = front.upper_bound(seconds); // bytes fall as seconds rise
    return slower != front.begin() && std::prev(slower)->second <= bytes;
  }

private:
  void addToFront(std::pair<double, double> point) {
    if (prunes(point.second, point.first))
      return;
    auto next = front.lower_bound(point.first);
    while (next != front.end() && next->second >= point.second)
      next = front.erase(next);
    front.insert(point);
  }

  const SearchOptions &options;
  double fastest = infinite;
  std::map<double, double> front; ///< bytes by seconds
};

class Search {
public:
  Search(Pool &pool, const Evaluate &evaluate, const SearchOptions &options)
      : pool(pool), evaluate(evaluate), options(options), found(options), families(pool.numberOfFamilies()),
        groups(pool.numberOfGroups()) {
    for (uint32_t number = 0; number < pool.entries.size(); ++number) {
      families[pool.entries[number].family].members.push_back(number);
      waiting.push({pool.entries[number].seconds, number});
    }
  }

  Outcome run() {
    Outcome outcome;
    outcome.considered = pool.considered;
    while (true) {
      std::vector<uint32_t> round = choose(outcome);
      if (round.empty())
        break;
      evaluateRound(round, outcome);
    }
    outcome.isComplete = waiting.empty();
    for (size_t i = 0; i < pool.pruned.size(); ++i)
      if (PrunedBy by = pool.pruned[i]; by.candidates > 0) {
        by.bound = i < bounds().size() ? bounds()[i].name : namesOfRelatives[i - bounds().size()];
        outcome.pruned.push_back(by);
      }
    return outcome;
  }

private:
  using Waiting = std::pair<double, uint32_t>; ///< the bound that was known, and the entry

  struct IsLater {
    const Pool *pool;
    bool operator()(const Waiting &a, const Waiting &b) const {
      auto key = [&](const Waiting &waiting) {
        return std::tuple(waiting.first, !pool->entries[waiting.second].givesFloor, waiting.second);
      };
      return key(a) > key(b);
    }
  };

  /// With what a relative took.
  double floorOf(const Entry &entry, const Candidate &candidate) const {
    return families[entry.family].floor * floorShare(pool.problem, candidate);
  }
  struct Largest {
    double seconds = 0;
    size_t bound = 0; ///< in Pool::pruned
  };
  /// What recomputes more takes no less than what recomputes only what is cheap.
  Largest boundOf(uint32_t number) {
    Largest largest = ownBoundOf(number);
    if (uint32_t lighter = pool.lighterThan(number); lighter != Pool::none) {
      const Entry &entry = pool.entries[lighter];
      if (double less = entry.isEvaluated ? entry.seconds : ownBoundOf(lighter).seconds; less > largest.seconds)
        largest = {less, bounds().size() + 2};
    }
    return largest;
  }
  Largest ownBoundOf(uint32_t number) {
    const Entry &entry = pool.entries[number];
    Largest largest = {entry.seconds, entry.bound};
    Group &group = groups[entry.group];
    if (families[entry.family].floor == 0 && !group.relatives.areKnown())
      return largest;
    Candidate candidate = pool.candidateOf(number);
    if (double floor = floorOf(entry, candidate); floor > largest.seconds)
      largest = {floor, bounds().size()};
    double update = candidate.sizeOf("pp") == 1 ? updateSeconds(pool.context, candidate) : 0;
    if (double kernels = group.relatives.boundOf(candidate, update); kernels > largest.seconds)
      largest = {kernels, bounds().size() + 1};
    return largest;
  }

  /// Whether it can be left out; if so, it is counted.
  bool prune(uint32_t number, Largest bound) {
    Entry &entry = pool.entries[number];
    if (!found.prunes(entry.bytes, bound.seconds))
      return false;
    entry.isDone = true;
    pool.countPruned(bound.bound, bound.seconds);
    return true;
  }

  std::vector<uint32_t> choose(const Outcome &outcome);
  uint32_t representativeOf(uint32_t number) const;
  void evaluateRound(const std::vector<uint32_t> &round, Outcome &outcome);

  Pool &pool;
  const Evaluate &evaluate;
  const SearchOptions &options;
  Found found;
  std::vector<Family> families;
  std::vector<Group> groups;
  std::priority_queue<Waiting, std::vector<Waiting>, IsLater> waiting{IsLater{&pool}};
  std::vector<uint32_t> order; ///< of what was evaluated: its place among all candidates
};

/// Of a family of which nothing is known the member to begin with: the one that is taken anyway, or a better source of
/// a floor.
uint32_t Search::representativeOf(uint32_t number) const {
  if (pool.entries[number].givesFloor)
    return number;
  uint32_t best = number;
  double least = infinite;
  for (uint32_t member : families[pool.entries[number].family].members)
    if (const Entry &entry = pool.entries[member];
        !entry.isDone && entry.givesFloor && entry.seconds < least && !found.prunes(entry.bytes, entry.seconds)) {
      least = entry.seconds;
      best = member;
    }
  return best;
}

/// The next round: those with the least bounds that are not pruned. What waits for a relative's floor waits for the
/// next round.
std::vector<uint32_t> Search::choose(const Outcome &outcome) {
  std::vector<uint32_t> round;
  std::vector<Waiting> later;
  std::vector<uint32_t> begun, begunGroups;
  size_t most = std::max<size_t>(1, options.atOnce);
  if (options.most > 0)
    most = std::min(most, static_cast<size_t>(options.most) - outcome.evaluated.size());
  while (!waiting.empty() && (round.size() < most || most == 0)) {
    auto [known, number] = waiting.top();
    waiting.pop();
    if (pool.entries[number].isDone)
      continue;
    Largest largest = boundOf(number);
    double bound = largest.seconds;
    if (prune(number, largest))
      continue;
    if (most == 0) { // nothing more may be evaluated, and this one would be
      later.push_back({bound, number});
      continue;
    }
    if (bound > known) {
      waiting.push({bound, number});
      continue;
    }
    uint32_t ofFamily = pool.entries[number].family;
    uint32_t chosen = families[ofFamily].isKnown ? number : representativeOf(number);
    uint32_t ofGroup = pool.entries[chosen].group;
    uint32_t lighter = pool.lighterThan(chosen); // it is in the queue before what recomputes more
    bool waitsForRelative = std::ranges::find(begun, ofFamily) != begun.end() ||
                            std::ranges::find(begunGroups, ofGroup) != begunGroups.end() ||
                            (lighter != Pool::none && !pool.entries[lighter].isDone) ||
                            std::ranges::find(round, lighter) != round.end();
    if (chosen != number || waitsForRelative)
      later.push_back({bound, number});
    if (waitsForRelative)
      continue;
    if (!families[ofFamily].isKnown)
      begun.push_back(ofFamily);
    if (!groups[ofGroup].isKnown)
      begunGroups.push_back(ofGroup);
    families[ofFamily].isKnown = groups[ofGroup].isKnown = true;
    pool.entries[chosen].isDone = true;
    round.push_back(chosen);
  }
  for (const Waiting &each : later)
    waiting.push(each);
  return round;
}

void Search::evaluateRound(const std::vector<uint32_t> &round, Outcome &outcome) {
  std::vector<Candidate> candidates;
  for (uint32_t number : round)
    candidates.push_back(pool.candidateOf(number));
  std::vector<Evaluated> results = evaluate(candidates);
  if (results.size() != round.size())
    throw Error(ExitCode::Internal, fmt::format("{} plans were to be evaluated, and there are {} results",
                                                round.size(), results.size()));
  for (size_t i = 0; i < round.size(); ++i) {
    Evaluated &result = results[i];
    found.add(result);
    Family &family = families[pool.entries[round[i]].family];
    family.floor = std::max(family.floor, result.floor);
    Entry &entry = pool.entries[round[i]];
    entry.isEvaluated = true;
    if (result.problem.empty())
      entry.seconds = std::max(entry.seconds, result.seconds);
    groups[entry.group].relatives.add(result);
    order.push_back(round[i]);
    auto isBefore = [&](size_t other) {
      double seconds = outcome.evaluated[other].seconds;
      return result.seconds != seconds ? result.seconds < seconds : round[i] < order[other];
    };
    if (result.fits() && (!outcome.best || isBefore(*outcome.best)))
      outcome.best = outcome.evaluated.size();
    outcome.evaluated.push_back(std::move(result));
  }
}

} // namespace

Outcome search(const Problem &problem, const std::vector<Constraint> &constraints, const Evaluate &evaluate,
               const SearchOptions &options) {
  Pool pool(problem, constraints);
  return Search(pool, evaluate, options).run();
}

std::vector<size_t> paretoFront(std::span<const Evaluated> evaluated) {
  auto keyOf = [&](size_t i) {
    return std::tuple(evaluated[i].seconds, evaluated[i].bytes, evaluated[i].candidate.devices(), i);
  };
  std::vector<size_t> order, front;
  for (size_t i = 0; i < evaluated.size(); ++i)
    if (evaluated[i].fits())
      order.push_back(i);
  std::ranges::sort(order, {}, keyOf);
  // What is before another is not slower, so it is better or equal if it is neither larger nor on more devices.
  for (size_t i : order)
    if (std::ranges::none_of(front, [&](size_t other) {
          return evaluated[other].bytes <= evaluated[i].bytes &&
                 evaluated[other].candidate.devices() <= evaluated[i].candidate.devices();
        }))
      front.push_back(i);
  return front;
}

} // namespace dtc::plans
