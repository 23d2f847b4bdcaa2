// What a plan decides, one thing after the other. The search knows no axis and no strategy by name: it goes through this
// table. A new kind of parallelism joins by a line of its own here, and a bound in bounds.cpp where it has one.
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
};

/// In the order in which they are decided.
std::span<const Dimension> dimensions();

/// What a user fixes or forbids: a value of a dimension.
struct Constraint {
  bool isFixed = true; ///< false: forbidden
  std::string dimension, value;
  std::string text; ///< as it was given: "--fix tp=8"
};

/// "tp=8", or a value by itself where only one dimension has it: "zero3", "zbv". "no-tp" style words do not exist: --fix
/// tp=1 says that. Throws Error (Usage) naming what exists, with a suggestion for what is misspelt.
Constraint parseConstraint(const std::string &text, bool isFixed);

/// Calls `visit` with every candidate that is possible and that the constraints leave, always in the same order.
void forEachCandidate(const Problem &problem, const std::vector<Constraint> &constraints,
                      const std::function<void(const Candidate &)> &visit);
bool isEmpty(const Problem &problem, const std::vector<Constraint> &constraints);

/// The smallest set of constraints without which there are candidates, the first such set in order; empty where there
/// are candidates with all of them, or none without any.
std::vector<Constraint> smallestConflict(const Problem &problem, const std::vector<Constraint> &constraints);

} // namespace dtc::plans
