// Whether ranks that store the same still store the same.
//
// Of a parameter or an optimizer slot that no axis of the mesh splits among all ranks, several ranks store copies. Each
// updates its own, from the same gradient, and nothing ever brings them together again: a bit that changes in one of
// them stays, and what is trained and saved from then on is a mixture. So ranks hash their copies now and then and
// before each checkpoint, and exchange the hashes: one number for all tensors that the same axes split. What is stored
// once cannot be compared with anything.
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

  /// Both outlive it.
  ReplicaCheck(const RankState &state, Communicator &communicator);

  /// What is compared and what is not, for people; empty where there is one rank.
  std::string describe() const;

  /// Throws Error (Corrupted) where copies differ after step `step`: on one rank with the first such tensor, the ranks
  /// that differ from most of those which store it (of two, both) and what to do, on the others without words.
  /// Collective. Does nothing when it has done so after this step before.
  void compare(int64_t step);

  /// Whether it is time to: after each step until an interval is set, which rank 0 knows after three of them.
  bool isDue(int64_t step) const;
  /// How long a step took.
  void noteStep(double seconds);
  /// Steps from one comparison to the next: what was set, or what comparisons and steps take on this rank asks for; 0:
  /// not known yet.
  int64_t wantedInterval() const;
  /// Rank 0's, on all ranks. Returns whether it is news.
  bool setInterval(int64_t steps) { return std::exchange(interval, steps) != steps; }

  /// Seconds that comparisons have taken since this was last asked.
  double takeSeconds();

private:
  /// Tensors that the same axes split.
  struct Tensors {
    const std::vector<int64_t> *pieces; ///< which piece each rank stores
    std::vector<const StateTensor *> all;
    std::vector<uint64_t> hashes; ///< of this rank's copies, when they were last compared
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
