#include "tools/dtc/StagesText.h"

#include "tools/dtc/forecast/ForecastText.h"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dtc {

std::string balancedText(const BalancedStages &balanced) {
  auto layers = [](const LayerCut &cut) { return fmt::format("[{}]", fmt::join(cut.layers, ", ")); };
  double own = balanced.chosen.slowest(), even = balanced.even.slowest();
  std::string text = fmt::format("layers of the stages: {}: the slowest rank takes {} a micro-batch",
                                 layers(balanced.chosen), secondsText(own));
  if (balanced.chosen.layers != balanced.even.layers)
    text += fmt::format(" instead of {} with {}, {:.1f}% {}", secondsText(even), layers(balanced.even),
                        100 * std::abs(1 - own / even), own > even ? "more" : "less");
  return text + (balanced.isForMemory ? "; a faster cut does not fit" : "");
}

std::vector<std::string> profiledLines(const ProfiledStages &profiled) {
  std::vector<std::string> took;
  for (size_t rank = 0; rank < profiled.stages.size(); ++rank)
    took.push_back(fmt::format("{} took {}", profiled.stages[rank], secondsText(profiled.seconds[rank])));
  return {fmt::format("measured: {} a micro-batch", fmt::join(took, ", ")), profiled.uneven,
          balancedText(profiled.cut)};
}

} // namespace dtc
