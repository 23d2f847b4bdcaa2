// Checks that replicas of the state are still equal.
//
// Unless the mesh axes split a parameter or an optimizer slot over all ranks, several ranks store copies of it. Each
// rank updates its own copy from the same gradient, and nothing ever synchronizes the copies: a bit that flips in one
// of them persists, and from then on the run trains and saves a mixture. So ranks hash their copies from time to time
// and before each checkpoint, and exchange the hashes: one number for all tensors that the same axes split. Data that
// is stored only once has nothing to be compared with.
#pragma once

#include "runtime/checkpoint/state.h"
#include "runtime/comm/communicator.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dtc {

class ReplicaCheck {
public:
  /// How much of the time comparisons may take.
  static constexpr double Share = 0.001;

  /// Both arguments outlive it.
  ReplicaCheck(const RankState &state, Communicator &communicator);

  /// What is compared and what is not, for people; empty with one rank.
  std::string describe() const;

  /// Throws Error (Corrupted) if copies differ after step `step`. On one rank the message names the first such tensor,
  /// the ranks that differ from the majority (both, if there are two) and what to do; on the others it has no message.
  /// Collective. Does nothing if it has already compared after this step.
  void compare(int64_t step);

  /// Whether a comparison is due: after each step until an interval is set, which rank 0 knows after three comparisons.
  bool isDue(int64_t step) const;
  /// Records how long a step took.
  void noteStep(double seconds);
  /// Steps from one comparison to the next: the interval that was set, or the one that follows from the time of
  /// comparisons and steps on this rank; 0: not known yet.
  int64_t wantedInterval() const;
  /// Sets rank 0's interval, on all ranks. Returns whether it changed.
  bool setInterval(int64_t steps) { return std::exchange(interval, steps) != steps; }

  /// Seconds that comparisons have taken since the last call.
  double takeSeconds();

private:
  /// Tensors that the same axes split.
  struct Tensors {
    const std::vector<int64_t> *pieces; ///< which piece each rank stores
    std::vector<const StateTensor *> all;
    std::vector<uint64_t> hashes; ///< of this rank's copies at the last comparison
  };
  void add(const StateTensor &tensor);
  [[noreturn]] void blame(const Tensors &tensors, int64_t step) const;

  const RankState &state;
  Communicator &communicator;
  Mesh mesh;
  Pieces pieces;
  std::vector<Tensors> stored; // by several ranks each
  size_t copies = 0;           // tensors in `stored`
  int64_t interval = 0, lastCompared = -1;
  double shortestStep = 0, untoldSeconds = 0;
  std::vector<double> seconds; // of the first comparisons
};

} // namespace dtc
