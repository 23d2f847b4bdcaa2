// The text of a plan, for people.
#include "tools/dtc/plan/PlanText.h"

#include "timing/plans/bounds.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/forecast/ForecastText.h"
#include "tools/dtc/plan/WhyNot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace dtc {

using plans::Evaluated;

double trainingSeconds(const PlanAnswer &answer, double step) {
  return step * answer.target.tokens / answer.number().problem.model.tokens();
}

double trainingCost(const PlanAnswer &answer, double step, int64_t devices) {
  constexpr double hour = 3600;
  return trainingSeconds(answer, step) / hour * static_cast<double>(devices) * answer.target.price;
}

std::string durationText(double seconds) {
  constexpr double hour = 3600, day = 24 * hour;
  if (seconds < hour)
    return secondsText(seconds);
  return seconds < day ? fmt::format("{:.3g} h", seconds / hour) : fmt::format("{:.4g} days", seconds / day);
}

/// "1 plan", "1,200 plans".
static std::string countText(int64_t count, const char *one) {
  std::string digits = std::to_string(count);
  for (size_t end = digits.size(); end > 3; end -= 3)
    digits.insert(end - 3, ",");
  return fmt::format("{} {}{}", digits, one, count == 1 ? "" : "s");
}

static std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

/// "300 tokens"; of many, "3e+11 tokens" as 3.00e11.
static std::string tokensText(double tokens) { return fmt::format("{:.4g} tokens", tokens); }

static void printHead(const PlanAnswer &answer) {
  const plans::Problem &problem = answer.number().problem;
  const plans::ModelFacts &model = problem.model;
  sayHeading(fmt::format("{} on {}", model.name, problem.cluster.name()));
  say(": {:.4g} parameters, {} devices{}\n", model.parameters(), problem.devices,
      !answer.isLeast        ? ""
      : answer.isLeastProven ? ", the least number that holds it"
                             : ", the least number that was found to hold it");
  say("  given: {}\n", fmt::join(answer.given, ", "));
  if (!answer.constraints.empty())
    say("  constraints: {}\n", fmt::join(answer.constraints, " "));
}

std::vector<std::string> countLines(const PlannedNumber &planned) {
  const plans::Outcome &outcome = planned.outcome;
  std::vector<std::string> lines = {
      fmt::format("considered {}; simulated {}{}", countText(outcome.considered, "plan"),
                  countText(static_cast<int64_t>(outcome.evaluated.size()), "plan"),
                  outcome.isComplete ? "" : ", and no more, as --effort says: there may be better ones")};
  if (outcome.considered == 1)
    lines.push_back(fmt::format("the sizes of the model and what is fixed leave one plan for {} device{}: there was "
                                "nothing to choose",
                                planned.devices(), planned.devices() == 1 ? "" : "s"));
  for (const plans::PrunedBy &pruned : outcome.pruned) {
    if (pruned.candidates == 0)
      continue;
    auto bound = std::ranges::find(plans::bounds(), pruned.bound, &plans::Bound::name);
    bool isBytes = bound != plans::bounds().end() && bound->of == plans::Bound::Of::Bytes;
    std::string against = isBytes ? fmt::format("a rank may have {}", bytesText(plans::roomOf(planned.problem)))
                          : planned.fits() ? fmt::format("the best takes {}", secondsText(planned.best().seconds))
                                           : "nothing fits";
    lines.push_back(fmt::format("pruned {} by {}: the closest takes at least {}, and {}",
                                countText(pruned.candidates, "plan"), pruned.bound,
                                isBytes ? bytesText(pruned.closest) : secondsText(pruned.closest), against));
  }
  return lines;
}

namespace {

/// Cells of a table, columns as wide as they must be; the first columns are set to the left.
class Table {
public:
  Table(std::vector<std::string> heads, size_t leftColumns) : left(leftColumns) { add(std::move(heads)); }

  void add(std::vector<std::string> cells) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (size_t i = 0; i < cells.size(); ++i)
      widths[i] = std::max(widths[i], cells[i].size());
    rows.push_back(std::move(cells));
  }

  void print() const {
    for (const std::vector<std::string> &row : rows) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i)
        line += i < left ? fmt::format("  {:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
      say("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
    }
  }

private:
  size_t left;
  std::vector<size_t> widths;
  std::vector<std::vector<std::string>> rows;
};

} // namespace

static std::string timetableOf(const plans::Candidate &candidate) {
  return candidate.sizeOf("pp") > 1 ? candidate.timetable : "-";
}

static void printRows(const PlanAnswer &answer) {
  const PlannedNumber &number = answer.number();
  bool hasTarget = answer.target.tokens > 0;
  std::vector<std::string> heads = {"",     "mesh", "strategy", "timetable", "recompute", "micro-batches",
                                    "step", "band", "MFU",      "exposed",   "bubble",    "a rank"};
  if (hasTarget)
    heads.emplace_back("training");
  if (hasTarget && answer.target.price > 0)
    heads.emplace_back("cost");
  constexpr size_t leftColumns = 5;
  Table table(heads, leftColumns);
  for (size_t i = 0; i < number.rows.size(); ++i) {
    const Evaluated &plan = number.rows[i].plan;
    const plans::Candidate &its = plan.candidate;
    std::vector<std::string> cells = {std::to_string(i + 1),
                                      its.meshText(),
                                      its.strategyText(),
                                      timetableOf(its),
                                      its.recompute,
                                      std::to_string(its.microBatches),
                                      secondsText(plan.seconds),
                                      "+-" + percent(plan.band),
                                      percent(plan.mfu),
                                      percent(plan.exposed / plan.seconds),
                                      percent(plan.bubble / plan.seconds),
                                      bytesText(plan.bytes)};
    if (hasTarget)
      cells.push_back(durationText(trainingSeconds(answer, plan.seconds)));
    if (hasTarget && answer.target.price > 0)
      cells.push_back(fmt::format("${:.0f}", trainingCost(answer, plan.seconds, its.devices())));
    table.add(std::move(cells));
  }
  sayHeading(number.rows.size() == 1 ? "\nThe plan\n" : "\nPlans\n");
  table.print();
  say("  {} of them refined by cut, recomputation and order; exposed and bubble are shares of the step\n",
      number.refined);
}

/// What the numbers of devices compare by.
static void printNumbers(const PlanAnswer &answer) {
  if (answer.numbers.size() < 2)
    return;
  sayHeading("\nNumbers of devices\n");
  bool hasTarget = answer.target.tokens > 0, hasPrice = hasTarget && answer.target.price > 0;
  std::vector<std::string> heads = {"devices", "plan", "step", "tokens/s", "a device"};
  if (hasTarget)
    heads.emplace_back("training");
  if (hasPrice)
    heads.emplace_back("cost");
  constexpr size_t leftColumns = 2;
  Table table(heads, leftColumns);
  for (const PlannedNumber &number : answer.numbers) {
    std::string devices = std::to_string(number.devices());
    if (!number.fits()) {
      table.add({devices, "no plan fits"});
      continue;
    }
    const Evaluated &plan = number.best();
    double rate = number.problem.model.tokens() / plan.seconds;
    std::vector<std::string> cells = {devices, plan.candidate.text(), secondsText(plan.seconds),
                                      fmt::format("{:.4g}", rate),
                                      fmt::format("{:.4g}", rate / static_cast<double>(number.devices()))};
    if (hasTarget)
      cells.push_back(durationText(trainingSeconds(answer, plan.seconds)));
    if (hasPrice)
      cells.push_back(fmt::format("${:.0f}", trainingCost(answer, plan.seconds, number.devices())));
    table.add(std::move(cells));
  }
  table.print();
}

/// Whether the days are kept, and with how many devices.
static void printTarget(const PlanAnswer &answer) {
  const PlanTarget &target = answer.target;
  if (target.tokens == 0)
    return;
  double step = answer.best().seconds;
  int64_t devices = answer.number().devices();
  std::string cost = target.price > 0 ? fmt::format(", and cost ${:.0f} at ${:.4g} for a device and hour",
                                                    trainingCost(answer, step, devices), target.price)
                                      : "";
  say("\n  {} take {} with the first plan{}\n", tokensText(target.tokens), durationText(trainingSeconds(answer, step)),
      cost);
  if (target.days == 0)
    return;
  constexpr double day = 86400;
  double most = target.days * day;
  auto meets = [&](const Evaluated &plan) { return trainingSeconds(answer, plan.seconds) <= most; };
  auto least = std::ranges::find_if(answer.numbers,
                                    [&](const PlannedNumber &number) { return number.fits() && meets(number.best()); });
  auto count = std::ranges::count_if(answer.number().rows, [&](const PlanRow &row) { return meets(row.plan); });
  if (least == answer.numbers.end())
    say("  in {:.4g} days: with none of these; a step may take {} for that\n", target.days,
        secondsText(most * answer.number().problem.model.tokens() / target.tokens));
  else if (answer.numbers.size() == 1)
    say("  in {:.4g} days: with {} of the {} above\n", target.days, count,
        countText(static_cast<int64_t>(answer.number().rows.size()), "plan"));
  else
    say("  in {:.4g} days: with {} device{}, the least of these numbers\n", target.days, least->devices(),
        least->devices() == 1 ? "" : "s");
}

static void printWhy(const PlanAnswer &answer) {
  const PlannedNumber &number = answer.number();
  sayHeading("\nWhy\n");
  if (number.rows.size() > 1) {
    const Evaluated &first = number.best(), &second = number.rows[1].plan;
    say("  1 before 2: {}\n", plans::whyBefore(number.problem, first, second));
    if (std::string differences = differencesText(second, first); !differences.empty())
      say("    2 has {}\n", differences);
  } else
    say("  no other plan that fits was found\n");
  for (const Popular &each : answer.popular)
    say("  {}{}: {}\n", each.name, each.text.empty() ? "" : fmt::format(" ({})", each.text), each.verdict);
}

static void printFront(const PlanAnswer &answer) {
  if (answer.front.empty())
    return;
  sayHeading("\nFront");
  say(": no other plan is better than one of these in memory, time and devices\n");
  constexpr size_t leftColumns = 2;
  Table table({"devices", "plan", "step", "a rank"}, leftColumns);
  for (const Evaluated &plan : answer.front)
    table.add({std::to_string(plan.candidate.devices()), plan.candidate.text(), secondsText(plan.seconds),
               bytesText(plan.bytes)});
  table.print();
}

void printPlan(const PlanAnswer &answer) {
  printHead(answer);
  for (const std::string &line : countLines(answer.number()))
    say("  {}\n", line);
  say("  {} in all, in {}{}\n", countText(answer.simulated, "plan"), durationText(answer.seconds),
      answer.isWhole ? "; the first was then compiled, certified and simulated whole" : "");
  printNumbers(answer);
  printRows(answer);
  printTarget(answer);
  printWhy(answer);
  printFront(answer);
  sayHeading("\nCommands\n");
  say("  {}\n  {}\n", answer.compileCommand, answer.runCommand);
}

} // namespace dtc
