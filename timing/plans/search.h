// The search: branch and bound over all candidates (Land and Doig 1960). Bounds come first; what they leave is
// evaluated, the most promising first, until the bounds of all that remains are no better than what was found. So the
// result is that of evaluating everything.
//
// Candidates of one family differ only in how state is split, what is recomputed, and the timetable, among those that
// have the same stages on the same ranks. The first of a family that is evaluated says what its products take on the
// busiest rank (Evaluated::floor): a bound for its relatives, which do the same products, and a better one than those
// of bounds.h.
#pragma once

#include "timing/plans/bounds.h"
#include "timing/plans/candidate.h"
#include "timing/plans/dimensions.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtc::plans {

/// Seconds of a stage's kernels for a micro-batch: of its forward pass, and of both halves of its backward pass.
struct StagePasses {
  double forward = 0, input = 0, weight = 0;
};

/// What placing, packing and simulating a candidate said.
struct Evaluated {
  Candidate candidate;
  std::string problem;  ///< why there is no such program; empty: there is one
  double seconds = 0;   ///< of a step
  double band = 0;      ///< relative: the step takes seconds (1 ± band)
  double bytes = 0;     ///< of the rank that holds most
  double lack = 0;      ///< bytes that the rank, device or node with the largest shortage lacks; 0: it fits
  /// Seconds of products and attention on the rank where these take longest, in a step's forward and backward passes,
  /// counting launches and operations alone (flops / peak / best share) and nothing that is recomputed, so that
  /// relatives take no less: what else kernels do depends on how state is split, and on what is kept. 0: not known.
  double floor = 0;
  /// Of each stage, at most what its kernels take for any micro-batch, in this plan and in those of relatives that
  /// recompute the same, split backward passes alike, and split state as much or more. Without what is recomputed.
  /// Empty: not known.
  std::vector<StagePasses> passes;
  double busy = 0; ///< with what is recomputed, seconds of the same kernels in a step on the busiest rank
  double compute = 0, exposed = 0, bubble = 0, host = 0; ///< seconds of the step, means over ranks: they add up to it
  double sent = 0;      ///< bytes of the rank that sends most, of a step
  double mfu = 0;

  bool fits() const { return problem.empty() && lack == 0; }
};

/// Evaluates some candidates, in their order; they may run at the same time.
using Evaluate = std::function<std::vector<Evaluated>(std::span<const Candidate>)>;

enum class Objective {
  Time,  ///< the fastest step that fits
  Front, ///< all that are not slower and larger than another (Pareto)
};

struct SearchOptions {
  Objective objective = Objective::Time;
  int64_t most = 0;      ///< candidates that are evaluated; 0: no limit
  size_t atOnce = 8;     ///< that are chosen together and handed to Evaluate, whatever the number of threads. The best
                         ///< does not depend on it; what is evaluated on the way does
  double within = 0;     ///< also finds every candidate whose step is up to this share longer than the best
};

/// The bound that a relative's floor is.
inline constexpr std::string_view floorName = "products of a relative";

struct PrunedBy {
  std::string_view bound; ///< Bound::name, or floorName
  int64_t candidates = 0;
  double closest = 0;     ///< the bound of the one that was closest to staying, in bytes or seconds
};

struct Outcome {
  int64_t considered = 0;           ///< candidates that the constraints leave
  std::vector<PrunedBy> pruned;     ///< by bounds that pruned any, in the order of bounds(), the floor last
  std::vector<Evaluated> evaluated; ///< in the order of evaluation
  std::optional<size_t> best;       ///< of these, the fastest that fits; of several the first in order of candidates
  bool isComplete = true;           ///< false: `most` was reached, so that there may be better ones
};

/// Candidates are evaluated in rounds, those with the least bound first, of equal ones those that give a floor, and
/// then the first in order. In the round in which a family begins, only one of its members is evaluated: one that gives
/// a floor (recompute "none" or "cheap") if bounds leave any, whether it is likely to fit or not. Throws Error
/// (BadInput) where the cluster has fewer devices than the problem.
///
/// Candidates that were considered have been evaluated or pruned; if the search is not complete, some neither.
Outcome search(const Problem &problem, const std::vector<Constraint> &constraints, const Evaluate &evaluate,
               const SearchOptions &options);

/// Those that no other is better than in bytes, seconds and devices, ascending by seconds; only what fits. Of several
/// that are equal the first.
std::vector<size_t> paretoFront(std::span<const Evaluated> evaluated);

} // namespace dtc::plans
