// The text of a study of scaling, for people and for their programs.
#include "tools/dtc/Colour.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/forecast/ForecastText.h"
#include "tools/dtc/forecast/Scaling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using nlohmann::ordered_json;

namespace dtc {

/// "3.4 h", "34 days".
static std::string longText(double seconds) {
  constexpr double hour = 3600, day = 24 * hour;
  if (seconds < hour)
    return secondsText(seconds);
  return seconds < day ? fmt::format("{:.3g} h", seconds / hour) : fmt::format("{:.4g} days", seconds / day);
}

/// What a reader of its row should know.
static std::string remarksOn(const ScaledStep &step, const ScaledStep &base) {
  constexpr double Much = 0.2, Most = 0.5;
  std::vector<std::string> remarks;
  if (step.communication >= Much)
    remarks.emplace_back(step.communication >= Most ? "most of it is communication" : "over 20% communication");
  if (!step.fits())
    remarks.push_back(fmt::format("does not fit: needs {} of {}", bytesText(step.needs), bytesText(step.has)));
  if (step.threads < base.threads)
    remarks.push_back(fmt::format("ranks of {} of the {} threads", step.threads, base.threads));
  return fmt::format("{}", fmt::join(remarks, "; "));
}

static void printTable(const Scaling &scaling, const ScaledSteps &steps) {
  const ScaledStep &base = steps.base;
  sayHeading(steps.isWeak ? "\nWeak scaling" : "\nStrong scaling");
  say(": {}; against {} device{} ({})\n",
      steps.isWeak ? "the batch grows with the devices" : fmt::format("{} samples a step at every size", base.batch),
      base.devices, base.devices == 1 ? "" : "s", base.mesh);
  say("  {:>7}  {:<20}{:>8}{:>11}{:>12}{:>10}{:>12}{:>15}{:>14}\n", "devices", "mesh", "samples", "a step", "tokens/s",
      "speed-up", "efficiency", "communication", "20 N tokens");
  auto row = [&](const ScaledStep &step) {
    if (!step.isKnown())
      return say("  {:>7}  impossible: {}\n", step.devices, step.problem);
    say("  {:>7}  {:<20}{:>8}{:>11}{:>12.4g}{:>9.4g}x{:>11.1f}%{:>14.1f}%{:>14}  {}\n", step.devices, step.mesh,
        step.batch, secondsText(step.seconds), step.tokensPerSecond(), steps.speedup(step),
        100 * steps.efficiency(step), 100 * step.communication, longText(scaling.targetSeconds(step)),
        remarksOn(step, base));
  };
  if (steps.sizes.front().devices != base.devices && base.devices == 1)
    row(base);
  std::ranges::for_each(steps.sizes, row);
}

/// What the table's law predicts.
static void printLaw(const ScaledSteps &steps) {
  std::optional<double> serial = steps.serialShare();
  if (!serial)
    return;
  std::string base = steps.base.devices == 1 ? "one device" : fmt::format("{} devices", steps.base.devices);
  if (*serial <= 0)
    say("  {}: no serial share, it scales better than linearly\n", steps.isWeak ? "Gustafson" : "Amdahl");
  else if (steps.isWeak)
    say("  Gustafson: {:.3g}% of a step does not grow, so n times {} do {:.4g} n of their work\n", 100 * *serial, base,
        1 - *serial);
  else
    say("  Amdahl: {:.3g}% of the work is serial, so no number of devices is faster than {:.4g} times {}\n",
        100 * *serial, 1 / *serial, base);
}

static void printPlot(const Scaling &scaling) {
  constexpr double Width = 50;
  auto bar = [](const ScaledSteps &steps, size_t at) {
    const ScaledStep &step = steps.sizes[at];
    if (!step.isKnown())
      return std::string("-");
    double efficiency = steps.efficiency(step);
    auto length = static_cast<size_t>(std::lround(Width * std::clamp(efficiency, 0.0, 1.2)));
    return fmt::format("{} {:.0f}%", std::string(length, '#'), 100 * efficiency);
  };
  sayHeading("\nEfficiency\n");
  for (size_t i = 0; i < scaling.strong.sizes.size(); ++i) {
    say("  {:>7}  strong  {}\n", scaling.strong.sizes[i].devices, bar(scaling.strong, i));
    say("  {:>7}  weak    {}\n", "", bar(scaling.weak, i));
  }
}

void printScaling(const Scaling &scaling) {
  say("{} on {}: {:.4g} parameters; 20 tokens for each are {:.4g}, and take 6 N D = {:.3g} operations\n", scaling.model,
      scaling.cluster, scaling.parameters, scaling.targetTokens(), scaling.targetFlops());
  for (const ScaledSteps *steps : {&scaling.strong, &scaling.weak}) {
    printTable(scaling, *steps);
    printLaw(*steps);
  }
  printPlot(scaling);
}

static ordered_json stepJson(const Scaling &scaling, const ScaledSteps &steps, const ScaledStep &step) {
  ordered_json json = {{"devices", step.devices}, {"mesh", step.mesh}, {"problem", step.problem}};
  if (step.isKnown())
    json.update({{"global_batch", step.batch},
                 {"seconds", step.seconds},
                 {"tokens_per_second", step.tokensPerSecond()},
                 {"speedup", steps.speedup(step)},
                 {"efficiency", steps.efficiency(step)},
                 {"communication", step.communication},
                 {"fits", step.fits()},
                 {"target_seconds", scaling.targetSeconds(step)}});
  return json;
}

static ordered_json stepsJson(const Scaling &scaling, const ScaledSteps &steps) {
  ordered_json json = {{"base", stepJson(scaling, steps, steps.base)}, {"serial_share", nullptr}};
  if (std::optional<double> serial = steps.serialShare())
    json["serial_share"] = *serial;
  json["sizes"] = ordered_json::array();
  for (const ScaledStep &step : steps.sizes)
    json["sizes"].push_back(stepJson(scaling, steps, step));
  return json;
}

ordered_json toJson(const Scaling &scaling) {
  return {{"cluster", scaling.cluster},
          {"parameters", scaling.parameters},
          {"target_tokens", scaling.targetTokens()},
          {"target_flops", scaling.targetFlops()},
          {"strong", stepsJson(scaling, scaling.strong)},
          {"weak", stepsJson(scaling, scaling.weak)}};
}

} // namespace dtc
