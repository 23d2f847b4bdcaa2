// What a plan decides, one thing after the other. The search knows no axis and no strategy by name: it goes through
// this table. A new kind of parallelism joins by a line of its own here, and a bound in bounds.cpp where it has one.
#pragma once

#include "timing/plans/candidate.h"
#include "timing/plans/problem.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::plans {

struct Dimension {
  std::string_view name;    ///< as --fix and --forbid take it: "tp"
  std::string_view meaning; ///< for people: "tensor-parallel ranks"
  /// The values that are possible once the dimensions before have been decided, the simplest first. None: nothing that
  /// was decided so far leads to a plan.
  std::vector<std::string> (*values)(const Problem &problem, const Candidate &decided);
  void (*set)(Candidate &candidate, const std::string &value);
  /// The value that a user's text stands for, whatever the problem; empty: there is no such value.
  std::string (*read)(std::string_view text);
  std::string_view form; ///< for people: what `read` takes, "a number, 1 or more"; empty: one of the words
  /// All that `values` may give, with "hsdp:N" for whatever N is; null: there is no end of them.
  std::vector<std::string> (*words)() = nullptr;
  /// Whether `values` leaves a value out only because it is as good as one that it gives; null: never. Where such a
  /// value is fixed, it is tried.
  bool (*isAlike)(const Problem &problem, const Candidate &decided, const std::string &value) = nullptr;
};

/// In the order in which they are decided:
///
///   tp             divides the devices, the heads, and the key heads where these are no fewer
///   cp             divides what is left of the devices, and the sequence
///   pp             divides what is left, with a layer for each rank
///   dp             is what is left, if it divides the batch
///   order          of the axes, outermost first. Of orders whose axes are spread alike over nodes, links and kinds of
///                  devices the first, in which pp is outside dp, dp outside cp, and cp outside tp
///   sp             where there is tp, and the sequence divides
///   state          split over dp and cp where there are any; "hsdp:N" where N neighbouring ranks of dp, with the axes
///                  inside it, fill a node or what a level of links joins
///   micro-batches  divide a rank's share of the batch; in a pipeline no fewer than its ranks, or else as many as there
///                  can be
///   timetable      of a pipeline: those that take its shape, with a layer for each stage; 1f1b first
///   recompute      in all layers alike
///
/// Values throw Error (BadInput) where the cluster has fewer devices than the problem.
std::span<const Dimension> dimensions();

/// What a user fixes or forbids: a value of a dimension.
struct Constraint {
  bool isFixed = true; ///< false: forbidden
  std::string dimension, value;
  std::string text; ///< as it was given: "--fix tp=8"
};

/// "tp=8", or a value by itself where only one dimension has it: "zero3", "zbv". "hsdp" stands for hsdp:N of all N,
/// "fsdp" for zero3. "no-tp" style words do not exist: --fix tp=1 says that. Throws Error (Usage) naming what exists,
/// with a suggestion for what is misspelt.
Constraint parseConstraint(const std::string &text, bool isFixed);

/// Calls `visit` with every candidate that is possible and that the constraints leave, always in the same order.
void forEachCandidate(const Problem &problem, const std::vector<Constraint> &constraints,
                      const std::function<void(const Candidate &)> &visit);
bool isEmpty(const Problem &problem, const std::vector<Constraint> &constraints);

/// The smallest set of constraints without which there are candidates, the first such set in order; empty where there
/// are candidates with all of them, or none without any. It is what the candidate violates that violates the fewest,
/// found by branch and bound. Both functions throw Error (Usage) where there are more than 64 constraints.
std::vector<Constraint> smallestConflict(const Problem &problem, const std::vector<Constraint> &constraints);

} // namespace dtc::plans
