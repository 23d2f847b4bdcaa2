#include "tools/dtc/forecast/LessWaiting.h"

#include "timing/events/simulate.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/forecast/ForecastText.h"
#include "tools/dtc/forecast/WhatIf.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dtc {

static Waiting waitingOf(const timing::Simulator &simulator, const timing::Simulated &simulated, int64_t ranks) {
  Waiting waiting{simulated.seconds, 0};
  for (size_t number = 0; number < simulated.classes.size(); ++number)
    waiting.moving += simulated.classes[number].moving() *
                      static_cast<double>(simulator.classes().sizeOf(static_cast<int>(number))) /
                      static_cast<double>(ranks);
  return waiting;
}

Waiting waitingOf(const timing::Step &step, const timing::Layout &layout) {
  timing::Simulator simulator(step, layout);
  return waitingOf(simulator, simulator.run(), layout.ranks());
}

/// The level on which transfers take longest.
static int busiestLevel(const timing::Simulated &simulated, int levels) {
  std::vector<double> busy(levels);
  for (const timing::ClassTimes &times : simulated.classes)
    for (int level = 0; level < levels; ++level)
      busy[level] = std::max(busy[level], times.busy[level]);
  return static_cast<int>(std::ranges::max_element(busy) - busy.begin());
}

std::optional<FasterLink> findFasterLink(const timing::Step &step, const timing::Layout &layout) {
  timing::Simulator simulator(step, layout);
  timing::Simulated now = simulator.run();
  if (!waitingOf(simulator, now, layout.ranks()).isNotable())
    return std::nullopt;
  const timing::Level &level = layout.cluster().levels(busiestLevel(now, layout.cluster().levels_size()));
  if (level.transport() == timing::Level::SHARED_MEMORY)
    return std::nullopt;
  auto at = [&](int grade) {
    constexpr double finer = 1.05;
    double factor = std::pow(finer, grade);
    timing::Cluster faster = layout.cluster();
    timing::Conditions conditions;
    applyWhatIf(fmt::format("bandwidth.{}={}", level.name(), factor), layout.ranks(), faster, conditions);
    Waiting then = waitingOf(step, timing::Layout(faster, step.mesh));
    return FasterLink{level.name(), level.bandwidth(), factor * level.bandwidth(), factor, then};
  };
  int little = 0, enough = 85; // 1.05^85 = 63
  FasterLink found = at(enough);
  if (found.then.isNotable())
    return std::nullopt;
  while (enough - little > 1) {
    int middle = (little + enough) / 2;
    FasterLink tried = at(middle);
    (tried.then.isNotable() ? little : enough) = middle;
    if (!tried.then.isNotable())
      found = tried;
  }
  return found;
}

static std::string textOf(const Waiting &then) {
  return fmt::format("ranks wait {} of {}", secondsText(then.moving), secondsText(then.step));
}

std::string textOf(const FasterLink &remedy) {
  return fmt::format("remedy: {} at {}/s instead of {}/s: {}", remedy.level, bytesText(remedy.after),
                     bytesText(remedy.before), textOf(remedy.then));
}

std::string textOf(const MoreAccumulation &remedy) {
  return fmt::format(
      "remedy: accumulation = {} and global_batch = {}, micro-batches as they are: {}, {:.0f}% less time a token",
      remedy.accumulation, remedy.globalBatch, textOf(remedy.then), 100 * (1 - remedy.tokenTime));
}

nlohmann::ordered_json toJson(const FasterLink &remedy) {
  return {{"level", remedy.level},
          {"bandwidth", remedy.after},
          {"bandwidth_factor", remedy.factor},
          {"seconds", remedy.then.step},
          {"exposed", remedy.then.moving}};
}

nlohmann::ordered_json toJson(const MoreAccumulation &remedy) {
  return {{"accumulation", remedy.accumulation},
          {"global_batch", remedy.globalBatch},
          {"seconds", remedy.then.step},
          {"exposed", remedy.then.moving},
          {"time_of_a_token", remedy.tokenTime}};
}

MoreAccumulation accumulationFrom(const nlohmann::json &json) {
  return {json["accumulation"], json["global_batch"], {json["seconds"], json["exposed"]}, json["time_of_a_token"]};
}

} // namespace dtc
