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
#include <utility>

namespace dtc {

using plans::Evaluated;

constexpr double secondsOfDay = 86400;

int64_t PlannedNumber::impossible() const {
  return std::ranges::count_if(outcome.evaluated, [](const Evaluated &each) { return !each.problem.empty(); });
}

int64_t PlannedNumber::untried() const {
  int64_t count = outcome.considered - static_cast<int64_t>(outcome.evaluated.size());
  for (const plans::PrunedBy &pruned : outcome.pruned)
    count -= pruned.candidates;
  return count;
}

double trainingSeconds(const PlanAnswer &answer, double step) {
  return step * answer.target.tokens / answer.number().problem.model.tokens();
}

double trainingCost(const PlanAnswer &answer, double step, int64_t devices) {
  constexpr double hour = 3600;
  return trainingSeconds(answer, step) / hour * static_cast<double>(devices) * answer.target.price;
}

bool isInTime(const PlanTarget &target, double step, double tokens) {
  return step * target.tokens / tokens <= target.days * secondsOfDay;
}

bool isOfBytes(const plans::PrunedBy &pruned) {
  auto bound = std::ranges::find(plans::bounds(), pruned.bound, &plans::Bound::name);
  return pruned.bound == plans::holdingName || (bound != plans::bounds().end() && bound->of == plans::Bound::Of::Bytes);
}

/// "1,200".
static std::string groupedDigits(double count) {
  std::string digits = fmt::format("{:.0f}", count);
  for (size_t end = digits.size(); end > 3; end -= 3)
    digits.insert(end - 3, ",");
  return digits;
}

std::string durationText(double seconds) {
  constexpr double minute = 60, hour = 60 * minute;
  if (seconds < 2 * minute)
    return secondsText(seconds);
  if (seconds < hour)
    return fmt::format("{:.3g} min", seconds / minute);
  if (seconds < secondsOfDay)
    return fmt::format("{:.3g} h", seconds / hour);
  double days = seconds / secondsOfDay;
  return days < 999 ? fmt::format("{:.3g} days", days) : groupedDigits(days) + " days";
}

std::string quantityText(double count) {
  constexpr double million = 1e6, step = 1000;
  constexpr std::array names = {"million", "billion", "trillion"};
  if (count < million)
    return groupedDigits(count);
  count /= million;
  size_t unit = 0;
  for (; count >= step && unit + 1 < names.size(); ++unit)
    count /= step;
  return fmt::format("{:.4g} {}", count, names[unit]);
}

std::string costText(double cost) {
  constexpr double withCents = 100;
  return cost < withCents ? fmt::format("${:.2f}", cost) : "$" + groupedDigits(cost);
}

/// "1 plan", "1,200 plans".
static std::string countText(int64_t count, const char *one) {
  return fmt::format("{} {}{}", groupedDigits(static_cast<double>(count)), one, count == 1 ? "" : "s");
}

static std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

static void printHead(const PlanAnswer &answer) {
  const plans::Problem &problem = answer.number().problem;
  const plans::ModelFacts &model = problem.model;
  sayHeading(fmt::format("{} on {}", model.name, problem.cluster.name()));
  say(": {} parameters, {}{}\n", quantityText(model.parameters()), countText(problem.devices, "device"),
      !answer.isLeast        ? ""
      : answer.isLeastProven ? ", the least number that holds it"
                             : ", the least number that was found to hold it");
  say("  given: {}\n", fmt::join(answer.given, ", "));
  if (!answer.constraints.empty())
    say("  constraints: {}\n", fmt::join(answer.constraints, " "));
}

/// What became of candidates that were simulated and are no plans.
static std::vector<std::string> failureLines(const PlannedNumber &planned) {
  int64_t large = 0;
  double least = 0;
  const Evaluated *impossible = nullptr;
  for (const Evaluated &each : planned.outcome.evaluated)
    if (!each.problem.empty())
      impossible = impossible ? impossible : &each;
    else if (!each.fits())
      least = large++ == 0 ? each.lack : std::min(least, each.lack);
  std::vector<std::string> lines;
  if (large > 0)
    lines.push_back(fmt::format("{} of those simulated do not fit: the closest lacks {}",
                                groupedDigits(static_cast<double>(large)), bytesText(least)));
  if (impossible)
    lines.push_back(fmt::format("{} could not be compiled, such as {}: {}", countText(planned.impossible(), "plan"),
                                impossible->candidate.text(), impossible->problem));
  return lines;
}

std::vector<std::string> countLines(const PlannedNumber &planned) {
  const plans::Outcome &outcome = planned.outcome;
  std::vector<std::string> lines = {
      fmt::format("considered {}; simulated {}{}", countText(outcome.considered, "plan"),
                  countText(static_cast<int64_t>(outcome.evaluated.size()), "plan"),
                  outcome.isComplete ? ""
                                     : fmt::format(", as many as --effort allows; {} neither simulated nor excluded: "
                                                   "there may be better ones",
                                                   countText(planned.untried(), "plan")))};
  if (outcome.considered == 1)
    lines.push_back(fmt::format("the sizes of the model and what is fixed leave one plan for {}: there was nothing to "
                                "choose",
                                countText(planned.devices(), "device")));
  for (const plans::PrunedBy &pruned : outcome.pruned) {
    if (pruned.candidates == 0)
      continue;
    bool isBytes = isOfBytes(pruned);
    std::string against = isBytes ? fmt::format("a rank may have {}", bytesText(plans::roomOf(planned.problem)))
                          : planned.fits() ? fmt::format("the best takes {}", secondsText(planned.best().seconds))
                                           : "nothing fits";
    lines.push_back(fmt::format("pruned {} by {}: the closest takes at least {}, and {}",
                                countText(pruned.candidates, "plan"), pruned.bound,
                                isBytes ? bytesText(pruned.closest) : secondsText(pruned.closest), against));
  }
  for (std::string &line : failureLines(planned))
    lines.push_back(std::move(line));
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
      widths[i] = std::max(widths[i], widthOf(cells[i]));
    rows.push_back(std::move(cells));
  }

  void print() const {
    for (const std::vector<std::string> &row : rows) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i)
        line += "  " + (i < left ? row[i] + padding(row[i], i) : padding(row[i], i) + row[i]);
      say("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
    }
  }

private:
  /// Characters, of which some are several bytes.
  static size_t widthOf(const std::string &cell) {
    return static_cast<size_t>(std::ranges::count_if(cell, [](char c) { return (c & 0xC0) != 0x80; }));
  }
  std::string padding(const std::string &cell, size_t column) const {
    return std::string(widths[column] - widthOf(cell), ' ');
  }

  size_t left;
  std::vector<size_t> widths;
  std::vector<std::vector<std::string>> rows;
};

} // namespace

static std::string timetableOf(const plans::Candidate &candidate) {
  return candidate.sizeOf("pp") > 1 ? candidate.timetable : "-";
}

/// What the columns mean, and what the rows are.
static void printTableNotes(const PlannedNumber &number, bool hasBand) {
  if (number.refined == 0)
    say("  not refined, as --refine 0 says: no better cut, recomputation or order was looked for\n");
  else
    say("  {} by cut, recomputation and order\n",
        number.refined == std::ssize(number.rows) ? "refined" : fmt::format("{} of them refined", number.refined));
  say("  exposed: share of the step in which ranks wait for data that moves; bubble: for other ranks\n");
  double room = plans::roomOf(number.problem);
  say("  memory: of the fullest rank{}\n", room > 0 ? fmt::format("; a rank may have {}", bytesText(room)) : "");
  if (!hasBand)
    say("  steps have no error band: the cluster file states no uncertainty\n");
}

static void printRows(const PlanAnswer &answer) {
  const PlannedNumber &number = answer.number();
  bool hasTarget = answer.target.tokens > 0, hasPrice = hasTarget && answer.target.price > 0;
  bool hasBand = std::ranges::any_of(number.rows, [](const PlanRow &row) { return row.plan.band > 0; });
  std::vector<std::string> heads = {"", "mesh", "strategy", "timetable", "recompute", "micro-batches", "step"};
  if (hasBand)
    heads.emplace_back("band");
  heads.insert(heads.end(), {"MFU", "exposed", "bubble", "memory"});
  if (hasTarget)
    heads.emplace_back("training");
  if (hasPrice)
    heads.emplace_back("cost");
  constexpr size_t leftColumns = 5;
  Table table(heads, leftColumns);
  for (size_t i = 0; i < number.rows.size(); ++i) {
    const PlanRow &row = number.rows[i];
    const Evaluated &plan = row.plan;
    const plans::Candidate &its = plan.candidate;
    std::vector<std::string> cells = {std::to_string(i + 1),
                                      its.meshText(),
                                      its.strategyText(),
                                      timetableOf(its),
                                      row.isMixed ? "mixed" : its.recompute,
                                      std::to_string(its.microBatches),
                                      secondsText(plan.seconds)};
    if (hasBand)
      cells.push_back(fmt::format("±{:.2g}%", 100 * plan.band));
    cells.insert(cells.end(), {percent(plan.mfu), percent(plan.exposed / plan.seconds),
                               percent(plan.bubble / plan.seconds), bytesText(plan.bytes)});
    if (hasTarget)
      cells.push_back(durationText(trainingSeconds(answer, plan.seconds)));
    if (hasPrice)
      cells.push_back(costText(trainingCost(answer, plan.seconds, its.devices())));
    table.add(std::move(cells));
  }
  sayHeading(number.rows.size() == 1 ? "\nThe plan\n" : "\nPlans\n");
  table.print();
  printTableNotes(number, hasBand);
}

/// What the numbers of devices compare by.
static void printNumbers(const PlanAnswer &answer) {
  if (answer.numbers.size() < 2)
    return;
  sayHeading("\nNumbers of devices\n");
  bool hasTarget = answer.target.tokens > 0, hasPrice = hasTarget && answer.target.price > 0;
  std::vector<std::string> heads = {"devices", "plan", "step", "tokens/s", "of a device"};
  if (hasTarget)
    heads.emplace_back("training");
  if (hasPrice)
    heads.emplace_back("cost");
  constexpr size_t leftColumns = 2;
  Table table(heads, leftColumns);
  for (const PlannedNumber &number : answer.numbers) {
    std::string devices = std::to_string(number.devices());
    if (!number.fits()) {
      table.add({devices, number.refusal.empty() ? "none that fits" : "none"});
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
      cells.push_back(costText(trainingCost(answer, plan.seconds, number.devices())));
    table.add(std::move(cells));
  }
  table.print();
  for (const PlannedNumber &number : answer.numbers)
    if (!number.refusal.empty())
      say("  {}\n", number.refusal);
}

/// Whether the days are kept, and with how many devices.
static void printTarget(const PlanAnswer &answer) {
  const PlanTarget &target = answer.target;
  if (target.tokens == 0)
    return;
  double step = answer.best().seconds, tokens = answer.number().problem.model.tokens();
  int64_t devices = answer.number().devices();
  std::string cost = target.price > 0 ? fmt::format(", and cost {} at ${:.4g} for a device and hour",
                                                    costText(trainingCost(answer, step, devices)), target.price)
                                      : "";
  say("\n  {} tokens take {} with plan 1{}\n", quantityText(target.tokens),
      durationText(trainingSeconds(answer, step)), cost);
  if (target.days == 0)
    return;
  auto meets = [&](const Evaluated &plan) { return isInTime(target, plan.seconds, tokens); };
  auto least = std::ranges::find_if(answer.numbers,
                                    [&](const PlannedNumber &number) { return number.fits() && meets(number.best()); });
  auto count = std::ranges::count_if(answer.number().rows, [&](const PlanRow &row) { return meets(row.plan); });
  std::string within = fmt::format("within {:.4g} day{}", target.days, target.days == 1 ? "" : "s");
  if (least == answer.numbers.end())
    say("  {}: with none of these; a step may take {} for that\n", within,
        secondsText(target.days * secondsOfDay * tokens / target.tokens));
  else if (answer.numbers.size() == 1)
    say("  {}: with {} of the {} above\n", within, count,
        countText(static_cast<int64_t>(answer.number().rows.size()), "plan"));
  else
    say("  {}: with {}, the fewest of these numbers\n", within, countText(least->devices(), "device"));
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
  Table table({"devices", "plan", "step", "memory"}, leftColumns);
  for (const Evaluated &plan : answer.front)
    table.add({std::to_string(plan.candidate.devices()), plan.candidate.text(), secondsText(plan.seconds),
               bytesText(plan.bytes)});
  table.print();
}

void printPlan(const PlanAnswer &answer) {
  printHead(answer);
  for (const std::string &line : countLines(answer.number()))
    say("  {}\n", line);
  say("  in all {} simulated, with those for the reasons below, in {}{}\n", countText(answer.simulated, "plan"),
      durationText(answer.seconds),
      answer.wholeSeconds > 0 ? "; plan 1 was then compiled, certified and simulated whole: a step takes " +
                                    secondsText(answer.wholeSeconds)
                              : "");
  printNumbers(answer);
  printRows(answer);
  printTarget(answer);
  printWhy(answer);
  printFront(answer);
  sayHeading("\nCommands\n");
  say("  {}\n  {}\n", answer.compileCommand, answer.runCommand);
  for (const std::string &note : answer.notes)
    say("    {}\n", note);
}

} // namespace dtc
