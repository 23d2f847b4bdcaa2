#include "timing/timetables/greedy.h"
#include "timing/timetables/lane.h"

#include <algorithm>

namespace dtc::timetables {

static constexpr double never = std::numeric_limits<double>::infinity();

namespace {

struct Choice {
  double begin = never;
  Kind kind = Kind::Forward;
  int32_t stage = -1; ///< -1: there is nothing that the rank can do yet
};

class Greedy {
public:
  Greedy(Timetable frame, const Costs &costs, double memoryLimit, const Policy &policy)
      : timetable(std::move(frame)), costs(costs), memoryLimit(memoryLimit), policy(policy),
        forwardEnds(timetable.rankOf.size() * static_cast<size_t>(timetable.microBatches), never),
        inputEnds(forwardEnds) {
    auto ranks = static_cast<int32_t>(timetable.ranks.size());
    for (int32_t rank = 0; rank < ranks; ++rank)
      states.push_back({Lane(timetable, rank), stagesOf(timetable, rank), 0, 0, {}});
    for (State &state : states)
      state.choice = choose(state);
  }

  Timetable run() {
    for (;;) {
      auto first = std::ranges::min_element(states, {}, [](const State &state) { return state.choice.begin; });
      if (first->choice.stage < 0)
        return std::move(timetable);
      take(*first);
    }
  }

private:
  struct State {
    Lane lane;
    std::vector<int32_t> stages;
    double free = 0, held = 0; ///< seconds; memory of stashes
    Choice choice;
  };

  const StageCosts &of(int32_t stage) const { return costs.stages[static_cast<size_t>(stage)]; }
  /// What a micro-batch takes at most. A forward pass reserves it, so that there is room for its backward pass.
  double mostOf(int32_t stage) const { return of(stage).stash + of(stage).gradientStash; }

  double arrival(const std::vector<double> &ends, int32_t from, int32_t to, int32_t micro) const {
    bool isSent = timetable.rankOf[static_cast<size_t>(from)] != timetable.rankOf[static_cast<size_t>(to)];
    return ends[timetable.index(from, micro)] + (isSent ? costs.transfer : 0);
  }

  double forwardReady(const State &state, int32_t stage) const {
    int32_t micro = state.lane.forwards(stage);
    if (micro == timetable.microBatches || !hasRoom(state, stage))
      return never;
    return stage == 0 ? 0 : arrival(forwardEnds, stage - 1, stage, micro);
  }

  double inputReady(const State &state, int32_t stage) const {
    int32_t micro = state.lane.inputs(stage);
    if (micro == state.lane.forwards(stage))
      return never;
    return stage + 1 == timetable.stages() ? 0 : arrival(inputEnds, stage + 1, stage, micro);
  }

  bool hasRoom(const State &state, int32_t stage) const {
    double needed = state.held;
    for (int32_t other : state.stages)
      needed += other >= stage ? mostOf(other) : 0;
    return needed <= memoryLimit;
  }

  int32_t waitingWeights(const State &state, int32_t stage) const {
    return state.lane.inputs(stage) - state.lane.weights(stage);
  }

  /// The stage whose weight gradients have waited longest, or -1.
  int32_t oldestWeights(const State &state) const {
    int32_t oldest = -1;
    for (int32_t stage : state.stages)
      if (waitingWeights(state, stage) > 0 &&
          (oldest < 0 || inputEnds[timetable.index(stage, state.lane.weights(stage))] <
                             inputEnds[timetable.index(oldest, state.lane.weights(oldest))]))
        oldest = stage;
    return oldest;
  }

  Choice choose(const State &state) const {
    double earliest = never;
    int32_t weights = 0;
    for (int32_t stage : state.stages) {
      earliest = std::min({earliest, forwardReady(state, stage), inputReady(state, stage)});
      weights += waitingWeights(state, stage);
    }
    double begin = std::max(state.free, earliest);
    int32_t oldest = oldestWeights(state);
    if (oldest >= 0 && (weights >= policy.mostWeights || fills(state, begin, of(oldest).weight)))
      return {state.free, Kind::BackwardWeight, oldest};
    if (earliest == never)
      return {};
    return preferred(state, begin);
  }

  bool fills(const State &state, double next, double weight) const {
    return next > state.free && state.free + weight * (1 - policy.patience) <= next;
  }

  /// Of forward passes and input gradients that can begin at a time.
  Choice preferred(const State &state, double begin) const {
    Choice forward = best(state, begin, Kind::Forward, policy.laterForwardFirst),
           input = best(state, begin, Kind::BackwardInput, policy.laterInputFirst);
    const Choice &first = policy.forwardFirst ? forward : input, &second = policy.forwardFirst ? input : forward;
    return first.stage >= 0 ? first : second;
  }

  Choice best(const State &state, double begin, Kind kind, bool isLaterFirst) const {
    Choice best{begin, kind, -1};
    int32_t bestMicro = 0;
    for (int32_t stage : state.stages) {
      bool isForward = kind == Kind::Forward;
      if ((isForward ? forwardReady(state, stage) : inputReady(state, stage)) > begin)
        continue;
      int32_t micro = isForward ? state.lane.forwards(stage) : state.lane.inputs(stage);
      if (best.stage >= 0 && !isLaterFirst && bestMicro < micro)
        continue;
      best.stage = stage;
      bestMicro = micro;
    }
    return best;
  }

  void take(State &state) {
    auto [begin, kind, stage] = state.choice;
    size_t at = 0;
    if (kind == Kind::Forward) {
      at = timetable.index(stage, state.lane.add(kind, stage));
      forwardEnds[at] = state.free = begin + of(stage).forward;
      state.held += mostOf(stage);
    } else if (kind == Kind::BackwardInput) {
      at = timetable.index(stage, state.lane.add(kind, stage));
      inputEnds[at] = state.free = begin + of(stage).input;
      state.held -= of(stage).stash - of(stage).stashForWeight;
    } else {
      state.lane.add(kind, stage);
      state.free = begin + of(stage).weight;
      state.held -= of(stage).stashForWeight + of(stage).gradientStash;
    }
    state.choice = choose(state);
    int32_t waiting = stage + (kind == Kind::Forward ? 1 : -1);
    if (kind != Kind::BackwardWeight && waiting >= 0 && waiting < timetable.stages()) {
      State &other = states[static_cast<size_t>(timetable.rankOf[static_cast<size_t>(waiting)])];
      other.choice = choose(other);
    }
  }

  Timetable timetable;
  const Costs &costs;
  double memoryLimit;
  Policy policy;
  std::vector<double> forwardEnds, inputEnds; ///< by stage and micro-batch; never: not begun
  std::vector<State> states;                  ///< of ranks
};

} // namespace

Timetable scheduleGreedily(Timetable frame, const Costs &costs, double memoryLimit, const Policy &policy) {
  return Greedy(std::move(frame), costs, memoryLimit, policy).run();
}

} // namespace dtc::timetables
