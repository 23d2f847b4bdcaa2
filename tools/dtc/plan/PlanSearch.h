// Searches for plans, for one number of devices after another; each candidate is evaluated once.
#pragma once

#include "timing/plans/dimensions.h"
#include "tools/dtc/plan/PlanAnswer.h"

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace dtc {

/// Evaluates some candidates, in their order.
using EvaluateOn = std::function<std::vector<plans::Evaluated>(const plans::Problem &problem,
                                                               std::span<const plans::Candidate> candidates)>;

struct PlanLimits {
  size_t rows = 10;    ///< of the table
  int64_t most = 500;  ///< candidates that are evaluated for one number of devices
};

class PlanSearch {
public:
  /// `problem` has everything but the number of devices.
  PlanSearch(plans::Problem problem, std::vector<plans::Constraint> constraints, EvaluateOn evaluate,
             PlanLimits limits);

  /// On these devices of the cluster; with `mayGrow`, where there are not as many, of one with more nodes.
  plans::Problem problemOf(int64_t devices, bool mayGrow = false) const;
  const std::vector<plans::Constraint> &constraints() const { return constrained; }
  /// The same search without one of its constraints.
  PlanSearch without(size_t constraint) const;

  /// Throws Error (BadInput) where no candidate is possible: with the numbers of devices that have some, or the
  /// constraints that must give way. Where candidates exist and none fits, there are no rows.
  PlannedNumber plan(int64_t devices);

  /// The plans on this number of devices that are not slower and larger than another.
  std::vector<plans::Evaluated> front(int64_t devices);

  struct Least {
    int64_t devices = 0;
    bool isProven = true; ///< false: for a smaller number PlanLimits::most was reached
  };
  /// The smallest number, from `first` to `last`, with a plan that fits, with `mayGrow` if need be of a cluster with
  /// more nodes like its last ones; nothing where none has one. Candidates are tried in the order of their least bytes,
  /// and those whose least is too much are not. `most`: that are evaluated for each number; 0: no limit.
  std::optional<Least> leastDevices(int64_t first, int64_t last, int64_t most, bool mayGrow = false);

  struct Shortage {
    plans::Candidate candidate;
    double bytes = 0;     ///< that a rank, device or node of it lacks
    bool isBound = false; ///< at least this
  };
  /// The candidate that lacks least where none fits. What has the least bound is evaluated until its lack is known.
  std::optional<Shortage> leastLack(const plans::Problem &problem);

  /// Remembers what was evaluated before.
  std::vector<plans::Evaluated> evaluate(const plans::Problem &problem, std::span<const plans::Candidate> candidates);

  int64_t evaluatedCount() const { return static_cast<int64_t>(known.size()); }

private:
  std::vector<plans::Evaluated> withOthers(const PlannedNumber &planned, const plans::Pool &pool,
                                           plans::SearchOptions options);
  bool hasPlan(const plans::Problem &problem, int64_t most, bool &isProven);
  std::vector<Shortage> leastBounds(const plans::Problem &problem, size_t count) const;

  plans::Problem whole;
  std::vector<plans::Constraint> constrained;
  EvaluateOn evaluateOn;
  PlanLimits limits;
  std::map<plans::Candidate, plans::Evaluated> known;
};

} // namespace dtc
