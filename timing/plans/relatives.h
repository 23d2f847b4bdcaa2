// What an evaluated candidate says about its relatives, which have the same stages on the same ranks, recompute the
// same and split backward passes alike: bounds of their steps.
//
// They have the same kernels and exchange the same activations, except for what depends on how state is split.
// Evaluated::passes and Evaluated::busy leave that out. So no step of a relative is shorter than
//
//   - what the busiest rank does from the first kernel to the last, and
//   - the step of its timetable if stages took what is in `passes`, and ranks sent nothing to each other. A whole
//     backward pass counts as two halves, because the first stage of the two may hand on its gradients in the middle of
//     it. Programs do co-scheduled entries one after the other, in the order of the list, and so does the bound.
#pragma once

#include "timing/plans/search.h"

#include <map>
#include <string>
#include <vector>

namespace dtc::plans {

/// Of relatives that recompute less, nothing or only what is cheap, a candidate that recomputes more takes at least
/// this share.
///
/// It does all that they do, and more. Yet this is not proven, and so the share is not 1: forward passes write less
/// where less is kept, and what moves meets other traffic on its links. plan_exhaustive_test compares all such pairs.
inline constexpr double lighterShare = 0.95;

/// What was evaluated of one such group of relatives.
class Relatives {
public:
  void add(const Evaluated &evaluated);
  bool areKnown() const { return !known.empty(); }
  /// The most that any of them said about the busiest rank; 0: nothing is known.
  double busy() const;
  /// Seconds that the step of a candidate of the group takes at least; 0: nothing is known. `update`: what the update
  /// of the busiest rank takes at least, behind its kernels.
  double boundOf(const Candidate &candidate, double update);

private:
  struct Known {
    double busy;
    std::vector<StagePasses> passes;
  };
  double stepOf(size_t number, const Candidate &candidate);

  std::vector<Known> known;
  std::map<std::pair<size_t, std::string>, double> steps; ///< by what is known, and timetable
};

} // namespace dtc::plans
