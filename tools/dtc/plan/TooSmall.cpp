#include "tools/dtc/plan/TooSmall.h"

#include "runtime/support/error.h"
#include "tools/dtc/Program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace dtc {

/// Of the constraints, one without which there is a plan that fits; empty where there is none.
static std::string constraintInTheWay(const PlanSearch &search, int64_t devices) {
  constexpr int64_t most = 16; // evaluations: a hint, for which nobody waits long
  for (size_t i = 0; i < search.constraints().size(); ++i)
    if (search.without(i).leastDevices(devices, devices, most))
      return search.constraints()[i].text;
  return "";
}

/// What is known of the candidates that could not even be compiled.
static std::string problemsText(const plans::Outcome &outcome) {
  auto its =
      std::ranges::find_if(outcome.evaluated, [](const plans::Evaluated &each) { return !each.problem.empty(); });
  return its == outcome.evaluated.end() ? "" : fmt::format("; {}: {}", its->candidate.text(), its->problem);
}

/// What of a device's memory plans may have, if that is not all of it.
static std::string limitsText(const plans::Problem &problem) {
  std::string text;
  if (problem.margin > 0)
    text += fmt::format("; --margin {:.3g} leaves {:.3g}% of the memory free", problem.margin, 100 * problem.margin);
  if (problem.memoryLimit > 0)
    text += fmt::format("; --memory-limit lets a rank have {}", bytesText(static_cast<double>(problem.memoryLimit)));
  return text;
}

void refuseTooSmall(PlanSearch &search, const PlannedNumber &found, const std::string &model) {
  constexpr int64_t factor = 64, most = 64;
  int64_t devices = found.devices();
  std::string text = fmt::format("{}: no plan fits on {} device{} of the cluster '{}'", model, devices,
                                 devices == 1 ? "" : "s", found.problem.cluster.name());
  auto lack = search.leastLack(found.problem);
  if (!lack)
    throw Error(ExitCode::BadInput, text + problemsText(found.outcome));
  text += fmt::format("; the closest, {}, lacks {}{} ({:.0f} bytes) of memory", lack->candidate.text(),
                      lack->isBound ? "at least " : "", bytesText(lack->bytes), std::ceil(lack->bytes));
  if (std::string constraint = constraintInTheWay(search, devices); !constraint.empty())
    throw Error(ExitCode::BadInput, fmt::format("{}; without {} there is a plan that fits{}", text, constraint,
                                                limitsText(found.problem)));
  std::optional<PlanSearch::Least> least = search.leastDevices(devices + 1, factor * devices, most, /*mayGrow=*/true);
  if (!least)
    text += fmt::format("; nor does any on up to {} devices", factor * devices);
  else
    text += fmt::format("; {} device{} like these would do{}", least->devices, least->devices == 1 ? "" : "s",
                        least->isProven ? ", and no fewer" : ", maybe fewer");
  throw Error(ExitCode::BadInput, text + limitsText(found.problem));
}

} // namespace dtc
