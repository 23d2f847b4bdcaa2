// What `dtc plan` answers: plans for some numbers of devices, why others lose, and the commands that run the proposed
// one. Known before anything is printed, so that text, JSON and the page say the same.
#pragma once

#include "timing/plans/prefer.h"
#include "timing/plans/search.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

/// A plan of the table.
struct PlanRow {
  plans::Evaluated plan;
  std::string choices; ///< as --choices reads them; empty where the plan was not refined
  bool isMixed = false; ///< layers do not all recompute what the plan says
};

/// What a search for one number of devices found.
struct PlannedNumber {
  plans::Problem problem;
  plans::Outcome outcome;    ///< of the search for the best one; rows may have others, too
  std::vector<PlanRow> rows; ///< first the one that is proposed, then others by their steps; none: nothing fits
  int64_t refined = 0;       ///< of the rows
  std::string refusal;       ///< why there is no candidate; empty: there are some, even if none fits

  int64_t devices() const { return problem.devices; }
  bool fits() const { return !rows.empty(); }
  const plans::Evaluated &best() const { return rows.front().plan; }
  /// Candidates of which there is no program, as trying to compile them showed.
  int64_t impossible() const;
  /// Candidates that were neither simulated nor excluded by a bound, because enough had been simulated.
  int64_t untried() const;
};

/// A layout that many teams would try first.
struct Popular {
  std::string_view name; ///< "plain data parallelism"
  std::string text;      ///< of the plan that was evaluated for it; empty where there is none
  std::string verdict;   ///< why it loses or fails, with the figure
  double seconds = 0;    ///< of a step; 0: it does not run
  double lack = 0;       ///< bytes; 0: it fits
};

/// What a training should reach.
struct PlanTarget {
  double tokens = 0; ///< 0: not said
  double days = 0;   ///< 0: not said
  double price = 0;  ///< of a device for an hour; 0: not said
};

struct PlanAnswer {
  std::string model;                    ///< as given
  std::vector<std::string> given;       ///< "global_batch 512", ...: what no plan changes
  std::vector<std::string> constraints; ///< "--fix tp=8", ...
  PlanTarget target;
  std::vector<PlannedNumber> numbers; ///< ascending
  size_t proposed = 0;                ///< of these, one that fits
  bool isLeast = false;               ///< no smaller number of devices has a plan
  bool isLeastProven = true;          ///< of smaller numbers every candidate has been tried or excluded by a bound
  std::vector<Popular> popular;
  std::vector<plans::Evaluated> front; ///< Pareto front of memory, time and devices, where it was asked for
  int64_t simulated = 0;               ///< candidates of all numbers, each once
  double seconds = 0;                  ///< that all of it took
  std::string compileCommand, runCommand;
  std::vector<std::string> notes; ///< what to know before copying them
  double wholeSeconds = 0; ///< of a step of the proposed plan, compiled, certified and simulated whole; 0: it was not

  const PlannedNumber &number() const { return numbers[proposed]; }
  const plans::Evaluated &best() const { return number().best(); }
};

/// Seconds that a training takes at a step of this length.
double trainingSeconds(const PlanAnswer &answer, double step);
/// What that costs; `devices` are paid for all the time.
double trainingCost(const PlanAnswer &answer, double step, int64_t devices);
/// Whether a training ends within PlanTarget::days at a step of this length on a model with `tokens` a step.
bool isInTime(const PlanTarget &target, double step, double tokens);

/// Whether a bound is one of bytes; the others are of seconds.
bool isOfBytes(const plans::PrunedBy &pruned);

/// "27.2 min", "3.4 h", "34 days".
std::string durationText(double seconds);
/// "7,952", "124.4 million", "300 billion".
std::string quantityText(double count);
/// "$7.25", "$1,234".
std::string costText(double cost);

} // namespace dtc
