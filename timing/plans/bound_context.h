// What the bounds of many candidates for one problem have in common: where groups of ranks are on the cluster, what
// they exchange at least, how fast rows of a pipeline are, and what timetables keep. Everything is worked out once and
// remembered, so each thread has a context of its own.
#pragma once

#include "timing/cost/cost.h"
#include "timing/plans/candidate.h"
#include "timing/plans/problem.h"

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace dtc::plans {

/// The ranks of an axis, or of a part of it: `size` positions that are `stride` apart.
struct Lane {
  int64_t stride = 1, size = 1;
  auto operator<=>(const Lane &) const = default;
};
/// What spans a group of ranks: lanes with more than one rank. Empty: a single rank.
using Lanes = std::vector<Lane>;

/// What a group takes at least to exchange some bytes, in however many pieces.
struct LeastExchange {
  double seconds = 0;
  double processor = 0; ///< of these, how long a rank's compute stalls
  LeastExchange &operator+=(const LeastExchange &other);
  LeastExchange times(double count) const { return {count * seconds, count * processor}; }
};

/// The ranks of a pipeline's places (of everything, without a pipeline), each with all that its ranks compute.
struct Rows {
  std::vector<double> rates; ///< flops a second of products at best: of all a row's ranks, each as fast as its slowest
  double sum = 0, most = 0, least = 0;
  bool areAlike() const { return most == least; }
};

/// What a timetable does with p ranks, v stages a rank and m micro-batches.
struct TimetableFacts {
  std::string name;
  bool isFlushed = false; ///< all passes of a step end before the update begins; otherwise nothing else is known
  bool splitsBackward = false, isInV = false;
  int64_t perRank = 1;    ///< stages
  std::vector<double> held; ///< of each stage, the most micro-batches between forward pass and input gradient
};

class BoundContext {
public:
  /// Throws Error (BadInput) where the cluster has fewer devices than the problem. `problem` outlives it.
  explicit BoundContext(const Problem &problem);

  const Problem &problem() const { return of; }
  /// Bytes that the fullest rank of a candidate may take; 0: no limit. In a pipeline it may be on the largest device,
  /// and have more of a node's memory than the other ranks there.
  double roomFor(const Candidate &candidate) const;
  /// Bytes that any rank may take where all have as much, of their own; 0: they have not, or there is no limit.
  double roomOfAll() const { return hasEqualRooms ? smallestRoom : 0; }

  /// Of an axis; size 1 where the mesh lacks it.
  Lane laneOf(const Candidate &candidate, std::string_view axis) const;
  /// The least of all groups over these lanes. `bytes` are what its collectives of that kind assemble or split,
  /// together, in elements of `type`.
  LeastExchange exchange(const Lanes &lanes, abi::Collective::Kind kind, double bytes, abi::DataType type) const;

  /// Of a pipeline along this lane.
  const Rows &rowsOf(Lane pipeline) const;
  /// Bytes a second that the fastest device reads and writes at best in kernels that are no products.
  double memoryRate() const { return fastestMemory; }
  double stepSeconds() const { return leastStepSeconds; }
  /// Several small kernels or collectives take at least this share of what one does that does all their work: 1, or
  /// less where small ones were measured to be more efficient, because their data is cached.
  double wholeShare() const { return leastWholeShare; }
  const TimetableFacts &timetable(const std::string &name, int64_t ranks, int64_t microBatches) const;

  using PipelineKey = std::tuple<Lane, std::string, int64_t>; ///< lane, timetable, micro-batches
  /// What `compute` gave when it was called first for that pipeline.
  template <typename Compute> double once(const PipelineKey &key, Compute compute) const {
    auto [entry, isNew] = pipelines.try_emplace(key);
    if (isNew)
      entry->second = compute();
    return entry->second;
  }

private:
  struct Slope {
    double seconds = 0, processor = 0; ///< for a byte, at any size
  };
  const std::vector<timing::Span> &spansOf(const Lanes &lanes) const;
  bool isConcave(abi::Collective::Kind kind, const timing::Span &span) const;
  Slope slopeOf(abi::Collective::Kind kind, const timing::Span &span, abi::DataType type) const;
  void measureDevices();
  void compareSizes();

  const Problem &of;
  timing::Layout line; ///< of a mesh with a single axis: ranks are positions
  std::vector<double> rates;  ///< of each position
  double fastestMemory = 0, leastStepSeconds = 0, leastWholeShare = 1;
  double smallestRoom = 0, largestRoom = 0;
  bool stallsProcessors = false, hasEqualRooms = false;
  mutable std::map<Lanes, std::vector<timing::Span>> spans;
  mutable std::map<std::tuple<std::vector<int64_t>, int, int>, Slope> slopes;
  mutable std::map<Lane, Rows> rows;
  mutable std::map<PipelineKey, double> pipelines;
  mutable std::map<std::tuple<std::string, int64_t, int64_t>, TimetableFacts> timetables;
};

} // namespace dtc::plans
