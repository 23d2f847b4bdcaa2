#include "timing/plans/search.h"

#include "runtime/support/error.h"
#include "timing/plans/known_holding.h"
#include "timing/plans/pool.h"
#include "timing/plans/relatives.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace dtc::plans {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

struct Family {
  std::vector<uint32_t> members; ///< in order
  double floor = 0;              ///< the largest that a member had
  bool isKnown = false;          ///< a member was evaluated, or will be in the round that is being chosen
};

struct Group {
  std::vector<uint32_t> members; ///< those with the least bounds first
  size_t begin = 0;              ///< members before it have been evaluated or pruned, or would be pruned
  Relatives relatives;
  bool isKnown = false; ///< as a family's
};

/// What is evaluated together.
struct Round {
  std::vector<uint32_t> members;
  std::vector<uint32_t> families, groups; ///< of which nothing was known before
};

/// A round ends when so many times as many wait for it as it may have members.
constexpr size_t mostLater = 8;

bool contains(const std::vector<uint32_t> &numbers, uint32_t number) {
  return std::ranges::find(numbers, number) != numbers.end();
}

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

/// Candidates that wait, the most promising first: those that are expected to take least, of equal ones those that give
/// a floor, then the first.
class Queue {
public:
  using Waiting = std::pair<double, uint32_t>; ///< seconds, and the entry

  explicit Queue(const Pool &pool) : isLater{&pool} {}
  bool empty() const { return heap.empty(); }
  void push(double seconds, uint32_t number) {
    heap.emplace_back(seconds, number);
    std::ranges::push_heap(heap, isLater);
  }
  Waiting pop() {
    std::ranges::pop_heap(heap, isLater);
    Waiting first = heap.back();
    heap.pop_back();
    return first;
  }
  template <typename Leaves> void removeIf(Leaves leaves) {
    std::erase_if(heap, [&](const Waiting &each) { return leaves(each.second); });
    std::ranges::make_heap(heap, isLater);
  }

private:
  struct IsLater {
    const Pool *pool;
    bool operator()(const Waiting &a, const Waiting &b) const {
      auto key = [&](const Waiting &waiting) {
        return std::tuple(waiting.first, !pool->entries[waiting.second].givesFloor(), waiting.second);
      };
      return key(a) > key(b);
    }
  };

  IsLater isLater;
  std::vector<Waiting> heap;
};

class Search {
public:
  Search(const Pool &pool, const Evaluate &evaluate, const SearchOptions &options)
      : pool(pool), evaluate(evaluate), options(options), found(options), families(pool.numberOfFamilies()),
        groups(pool.numberOfGroups()), pruned(pool.pruned), isDone(pool.entries.size()), holding(pool), waiting(pool),
        doubtful(pool) {
    for (uint32_t number = 0; number < pool.entries.size(); ++number) {
      families[pool.entries[number].family].members.push_back(number);
      groups[pool.entries[number].group].members.push_back(number);
      waiting.push(expectedOf(number), number);
    }
    for (Group &group : groups)
      std::ranges::stable_sort(group.members, {}, [&](uint32_t member) { return pool.entries[member].seconds; });
  }

  /// A round is also empty where all that came first waited for lighter variants, and these were pruned.
  Outcome run() {
    Outcome outcome;
    outcome.considered = pool.considered;
    while (!isOver()) {
      std::vector<uint32_t> round = choose(outcome);
      if (!round.empty())
        evaluateRound(round, outcome);
      else if (mostOfRound(outcome) == 0)
        break;
    }
    outcome.isComplete = isOver();
    outcome.pruned = pruned.list();
    return outcome;
  }

private:
  double expectedOf(uint32_t number) const {
    const PoolEntry &entry = pool.entries[number];
    return std::max(entry.seconds, static_cast<double>(entry.expected));
  }
  bool isOver() const { return waiting.empty() && doubtful.empty(); }

  /// The largest bound of a candidate's seconds.
  struct Largest {
    double seconds = 0;
    size_t bound = 0; ///< by number, see PruneCounts

    void raise(double to, OfRelatives by) {
      if (to > seconds)
        *this = {to, PruneCounts::numberOf(by)};
    }
  };

  /// With what a relative took.
  double floorOf(const PoolEntry &entry, const Candidate &candidate) const {
    return families[entry.family].floor * floorShare(pool.problem, candidate);
  }
  Largest boundOf(uint32_t number) {
    Largest largest = ownBoundOf(number);
    for (uint32_t lighter : pool.lighterThan(number))
      if (lighter != Pool::none) {
        auto step = steps.find(lighter);
        double seconds = std::max(step == steps.end() ? 0 : step->second, ownBoundOf(lighter).seconds);
        largest.raise(lighterShare * seconds, OfRelatives::Lighter);
      }
    return largest;
  }
  /// Without what lighter variants say.
  Largest ownBoundOf(uint32_t number) {
    const PoolEntry &entry = pool.entries[number];
    Largest largest = {entry.seconds, entry.bound};
    Group &group = groups[entry.group];
    double fewer = busyOfFewer(entry);
    if (families[entry.family].floor == 0 && !group.relatives.areKnown() && fewer == 0)
      return largest;
    Candidate candidate = pool.candidateOf(number);
    largest.raise(floorOf(entry, candidate), OfRelatives::Floor);
    double update = candidate.sizeOf("pp") == 1 ? updateSeconds(pool.context, candidate) : 0;
    largest.raise(group.relatives.boundOf(candidate, update), OfRelatives::Kernels);
    if (fewer > 0)
      largest.raise(fewer + update, OfRelatives::Fewer);
    return largest;
  }
  /// What the busiest rank does, by what relatives with fewer micro-batches do.
  double busyOfFewer(const PoolEntry &entry) const {
    constexpr double rounding = 1 - 1e-9; // sums in another order
    double busy = 0;
    for (uint32_t group : pool.fewerThan(entry.group))
      busy = std::max(busy, groups[group].relatives.busy());
    return rounding * pool.context.wholeShare() * busy;
  }

  /// Whether it can be left out; if so, it is counted. Relatives are asked only if its own bounds do not say so.
  bool prune(uint32_t number, Largest &bound) {
    const PoolEntry &entry = pool.entries[number];
    bound = {entry.seconds, entry.bound};
    if (found.prunes(entry.bytes, bound.seconds))
      return countPruned(number, bound.bound, bound.seconds);
    double bytes = holding.leastOf(number);
    if (holding.isTooMuch(bytes))
      return countPruned(number, PruneCounts::numberOf(OfRelatives::Holding), bytes);
    bound = boundOf(number);
    if (found.prunes(std::max(entry.bytes, bytes), bound.seconds))
      return countPruned(number, bound.bound, bound.seconds);
    return false;
  }
  bool prune(uint32_t number) {
    Largest bound;
    return prune(number, bound);
  }
  bool countPruned(uint32_t number, size_t bound, double value) {
    isDone[number] = true;
    pruned.add(bound, value);
    return true;
  }

  /// How many candidates may be in the next round.
  size_t mostOfRound(const Outcome &outcome) const {
    size_t most = std::max<size_t>(1, options.atOnce);
    if (options.most > 0)
      most = std::min(most, static_cast<size_t>(options.most) - outcome.evaluated.size());
    return most;
  }

  std::vector<uint32_t> choose(const Outcome &outcome);
  void chooseFrom(Queue &queue, size_t most, Round &round);
  void sweep(Queue &queue);
  bool take(uint32_t number, Round &round);
  bool isLeft(uint32_t number) const;
  bool waitsForRound(uint32_t number, const Round &round) const;
  uint32_t representativeOf(uint32_t number) const;
  uint32_t leastHolding(uint32_t number);
  uint32_t firstOf(uint32_t number);
  void evaluateRound(const std::vector<uint32_t> &round, Outcome &outcome);
  void learn(uint32_t number, const Evaluated &result);

  const Pool &pool;
  const Evaluate &evaluate;
  const SearchOptions &options;
  Found found;
  std::vector<Family> families;
  std::vector<Group> groups;
  PruneCounts pruned;
  std::vector<bool> isDone;         ///< evaluated, or pruned, or in the round that is being chosen
  std::map<uint32_t, double> steps; ///< of what was evaluated and bounds heavier variants, in seconds
  KnownHolding holding;
  Queue waiting;
  Queue doubtful;              ///< what will probably not fit
  std::vector<uint32_t> order; ///< of what was evaluated: its place among all candidates
};

/// Whether it may have to be evaluated, by its own bounds.
bool Search::isLeft(uint32_t number) const {
  const PoolEntry &entry = pool.entries[number];
  return !isDone[number] && !found.prunes(entry.bytes, entry.seconds) && !holding.isTooMuch(holding.leastOf(number));
}

/// Of a family of which nothing is known the member to begin with: the one that is taken anyway, or a better source of
/// a floor.
uint32_t Search::representativeOf(uint32_t number) const {
  if (pool.entries[number].givesFloor())
    return number;
  uint32_t best = number;
  double least = infinite;
  for (uint32_t member : families[pool.entries[number].family].members)
    if (const PoolEntry &entry = pool.entries[member];
        isLeft(member) && entry.givesFloor() && entry.seconds < least && !holding.isProbablyTooMuch(member)) {
      least = entry.seconds;
      best = member;
    }
  return best;
}

/// The next round: those that are expected to take least and are not pruned. What waits for a relative waits for the
/// next round, and what will probably not fit until there is nothing else.
std::vector<uint32_t> Search::choose(const Outcome &outcome) {
  Round round;
  chooseFrom(waiting, mostOfRound(outcome), round);
  if (waiting.empty() && round.members.empty())
    chooseFrom(doubtful, mostOfRound(outcome), round);
  return round.members;
}

void Search::chooseFrom(Queue &queue, size_t most, Round &round) {
  constexpr int manyInARow = 256;
  std::vector<Queue::Waiting> later;
  auto isFull = [&] {
    return round.members.size() >= most || (!round.members.empty() && later.size() >= mostLater * most);
  };
  for (int inARow = 0; !queue.empty() && (most == 0 || !isFull());) {
    if (inARow == manyInARow) {
      sweep(queue);
      inARow = 0;
      continue;
    }
    auto [known, number] = queue.pop();
    Largest largest;
    if (isDone[number] || prune(number, largest)) {
      ++inARow;
      continue;
    }
    inARow = 0;
    double seconds = std::max(expectedOf(number), largest.seconds);
    if (&queue == &waiting && holding.isProbablyTooMuch(number))
      doubtful.push(seconds, number);
    else if (most == 0) // nothing more may be evaluated, and this one would be
      later.emplace_back(seconds, number);
    else if (seconds > known)
      queue.push(seconds, number);
    else if (!take(number, round))
      later.emplace_back(seconds, number);
  }
  for (auto [seconds, number] : later)
    queue.push(seconds, number);
}

/// Takes out what its own bounds prune, faster than one by one.
void Search::sweep(Queue &queue) {
  queue.removeIf([&](uint32_t number) {
    const PoolEntry &entry = pool.entries[number];
    return isDone[number] ||
           (found.prunes(entry.bytes, entry.seconds) && countPruned(number, entry.bound, entry.seconds));
  });
}

/// Of all that are left and hold no more than a candidate that will probably not fit, and probably do not fit either,
/// the one that probably holds least: if it does not fit, none of them does.
uint32_t Search::leastHolding(uint32_t number) {
  std::vector<std::pair<double, uint32_t>> less;
  const double its = holding.probableOf(number);
  for (uint32_t member : holding.membersOf(number))
    if (double bytes = holding.probableOf(member);
        bytes < its && holding.isTooMuch(bytes) && isLeft(member) && holding.holdsMore(number, member))
      less.emplace_back(bytes, member);
  std::ranges::sort(less);
  for (auto [bytes, member] : less)
    if (!prune(member))
      return member;
  return number;
}

/// What is to be evaluated before a candidate, because it may prune it: the member with which its family begins, a
/// variant that recomputes less, or a relative with fewer micro-batches. Or none.
uint32_t Search::firstOf(uint32_t number) {
  const PoolEntry &entry = pool.entries[number];
  if (!families[entry.family].isKnown)
    if (uint32_t representative = representativeOf(number); representative != number)
      return representative;
  for (uint32_t lighter : pool.lighterThan(number))
    if (lighter != Pool::none && isLeft(lighter) && !holding.isProbablyTooMuch(lighter))
      return lighter;
  if (holding.isProbablyTooMuch(number))
    if (uint32_t less = leastHolding(number); less != number)
      return less;
  for (uint32_t fewer : pool.fewerThan(entry.group)) {
    Group &group = groups[fewer];
    while (group.begin < group.members.size() && !isLeft(group.members[group.begin]))
      ++group.begin;
    if (!group.isKnown && group.begin < group.members.size() && !holding.isProbablyTooMuch(group.members[group.begin]))
      return group.members[group.begin];
  }
  return Pool::none;
}

/// Whether what is evaluated in the round may prune it.
bool Search::waitsForRound(uint32_t number, const Round &round) const {
  const PoolEntry &entry = pool.entries[number];
  auto isInRound = [&](uint32_t other) { return contains(round.members, other); };
  auto holdsLess = [&](uint32_t other) { return holding.holdsMore(number, other); };
  auto beginsInRound = [&](uint32_t group) { return contains(round.groups, group); };
  return contains(round.families, entry.family) || beginsInRound(entry.group) ||
         std::ranges::any_of(pool.lighterThan(number), isInRound) ||
         (holding.isProbablyTooMuch(number) && std::ranges::any_of(round.members, holdsLess)) ||
         std::ranges::any_of(pool.fewerThan(entry.group), beginsInRound);
}

/// Puts a candidate into the round, or what comes before it. Returns whether it has been taken itself: otherwise it
/// waits for the next round.
bool Search::take(uint32_t number, Round &round) {
  if (waitsForRound(number, round))
    return false;
  uint32_t chosen = number;
  for (uint32_t first = firstOf(chosen); first != Pool::none; first = firstOf(chosen))
    if (!prune(first))
      chosen = first;
  if (waitsForRound(chosen, round))
    return false;
  auto [ofFamily, ofGroup] = std::pair(pool.entries[chosen].family, pool.entries[chosen].group);
  if (!families[ofFamily].isKnown)
    round.families.push_back(ofFamily);
  if (!groups[ofGroup].isKnown)
    round.groups.push_back(ofGroup);
  families[ofFamily].isKnown = groups[ofGroup].isKnown = true;
  isDone[chosen] = true;
  round.members.push_back(chosen);
  return chosen == number;
}

/// What a result says about other candidates.
void Search::learn(uint32_t number, const Evaluated &result) {
  found.add(result);
  const PoolEntry &entry = pool.entries[number];
  Family &family = families[entry.family];
  family.floor = std::max(family.floor, result.floor);
  groups[entry.group].relatives.add(result);
  holding.learn(number, result);
  if (result.problem.empty() && !result.passes.empty())
    steps[number] = result.seconds;
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
    learn(round[i], result);
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
  return search(Pool(problem, constraints), evaluate, options);
}

Outcome search(const Pool &pool, const Evaluate &evaluate, const SearchOptions &options) {
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
