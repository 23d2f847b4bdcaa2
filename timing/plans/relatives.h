// What an evaluated candidate says about its relatives, which have the same stages on the same ranks, recompute the
// same and split backward passes alike: bounds of their steps.
//
// Their kernels are the same, except for those that depend on how state is split. Evaluated::passes and
// Evaluated::busy leave out what a relative may do without, if its state is split as much or more. So no step of such
// a relative is shorter than
//
//   - what the busiest rank computes, and
//   - the step of its timetable if stages took what is in `passes` and nothing were sent. A whole backward pass counts
//     as two halves, because the first stage of the two may hand on its gradients in the middle of it.
#pragma once

#include "timing/plans/search.h"

#include <map>
#include <string>
#include <vector>

namespace dtc::plans {

/// The bound that a relative's kernels are.
inline constexpr std::string_view kernelsName = "kernels of a relative";
/// The bound that the step of a candidate is for those that differ only in that they recompute more.
inline constexpr std::string_view lighterName = "a relative that recomputes less";

/// What was evaluated of one such group of relatives.
class Relatives {
public:
  void add(const Evaluated &evaluated);
  bool areKnown() const { return !known.empty(); }
  /// Seconds that the step of a candidate of the group takes at least; 0: nothing is known. `update`: what the update
  /// of the busiest rank takes at least, behind its kernels.
  double boundOf(const Candidate &candidate, double update);

private:
  struct Known {
    int splits; ///< see splitsOf
    double busy;
    std::vector<StagePasses> passes;
  };
  double stepOf(size_t number, const Candidate &candidate);

  std::vector<Known> known;
  std::map<std::pair<size_t, std::string>, double> steps; ///< by what is known and timetable
};

/// Grows with what is split: "ddp", "zero1", "zero2", "zero3", "hsdp:N", which gathers larger parts than "zero3".
int splitsOf(const std::string &state);

} // namespace dtc::plans
