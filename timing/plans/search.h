// The search: branch and bound over all candidates (Land and Doig 1960). Bounds come first; what they leave is
// evaluated, the most promising first, until the bounds of all that remains are no better than what was found. So the
// result is that of evaluating everything.
//
// What is evaluated bounds its relatives, better than bounds.h does:
//
//   - Candidates of one family differ only in how state is split, what is recomputed, and the timetable, among those
//     that have the same stages on the same ranks. They do the same products (Evaluated::floor)
//   - Those of a family that recompute the same and split backward passes alike have the same kernels, but for those of
//     their state, and exchange the same activations (relatives.h)
//   - Those that differ from such relatives only in that they have several times as many micro-batches do the same work
//     in smaller pieces
//   - What recomputes more takes hardly less than what recomputes less and is otherwise equal. This bound is not proven
//     (lighterShare, relatives.h)
//   - What keeps more, splits less state or has more in flight, with the same axes, takes hardly less memory. Nor is
//     this proven (holdingShare, holding.h)
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

/// Seconds of a stage for a micro-batch, between what it receives and what it sends: of its forward pass, and of both
/// halves of its backward pass.
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
  /// Of each stage, at most what it takes for any micro-batch, in this plan and in those of relatives that recompute
  /// the same and split backward passes alike, however their state is split. Without what is recomputed. Empty: not
  /// known; then the plan bounds no variant that recomputes more, either.
  std::vector<StagePasses> passes;
  double busy = 0; ///< likewise, with what is recomputed, of a step on the busiest rank
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

/// The bounds that relatives give: a floor, kernels and exchanges, those of fewer micro-batches, the step of a variant
/// that recomputes less, and bytes.
inline constexpr std::string_view floorName = "products of a relative", kernelsName = "kernels of a relative",
                                  fewerName = "a relative with fewer micro-batches",
                                  lighterName = "a relative that recomputes less",
                                  holdingName = "memory of a relative that holds less";

struct PrunedBy {
  std::string_view bound; ///< Bound::name, or one of those that relatives give
  int64_t candidates = 0;
  double closest = 0;     ///< the bound of the one that was closest to staying, in bytes or seconds
};

struct Outcome {
  int64_t considered = 0;           ///< candidates that the constraints leave
  std::vector<PrunedBy> pruned;     ///< by bounds that pruned any: bounds() in their order, then relatives'
  std::vector<Evaluated> evaluated; ///< in the order of evaluation
  std::optional<size_t> best;       ///< of these, the fastest that fits; of several the first in order of candidates
  bool isComplete = true;           ///< false: `most` was reached, so that there may be better ones
};

/// Candidates are evaluated in rounds, those that are expected to take least first (expectedSeconds), of equal ones
/// those that give a floor, and then the first in order. What will probably not fit comes last, after whatever holds
/// less and will probably not fit, either. In a round in which a family or a group of relatives begins, only one of its
/// members is evaluated. Of those that will probably fit, a family begins with one that gives a floor (recompute "none"
/// or "cheap") if bounds leave any; what recomputes more waits for its variants that recompute nothing and only what is
/// cheap, and what has more micro-batches for relatives with fewer. Throws Error (BadInput) where the cluster has fewer
/// devices than the problem.
///
/// Each candidate that was considered has been evaluated or pruned, and counted once; if the search is not complete,
/// some neither.
Outcome search(const Problem &problem, const std::vector<Constraint> &constraints, const Evaluate &evaluate,
               const SearchOptions &options);

/// Likewise, of candidates that were gathered before (pool.h).
class Pool;
Outcome search(const Pool &pool, const Evaluate &evaluate, const SearchOptions &options);

/// Those that no other is better than in bytes, seconds and devices, ascending by seconds; only what fits. Of several
/// that are equal the first.
std::vector<size_t> paretoFront(std::span<const Evaluated> evaluated);

} // namespace dtc::plans
