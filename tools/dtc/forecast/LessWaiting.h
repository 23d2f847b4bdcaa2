// What would make ranks wait less for transfers. Every claim made here has been simulated.
#pragma once

#include "timing/cluster/cluster.h"
#include "timing/events/step.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>

namespace dtc {

/// The length of a step, and how long ranks wait in it for transfers, as the mean over ranks. Seconds.
struct Waiting {
  double step = 0, moving = 0;
  /// Waiting for less than a twentieth of a step needs no remedy, and is what a remedy must reach.
  bool isNotable() const { return moving > notable * step; }

private:
  static constexpr double notable = 0.05;
};

Waiting waitingOf(const timing::Step &step, const timing::Layout &layout);

/// A level of links with as much bandwidth as the remedy needs.
struct FasterLink {
  std::string level;
  double before = 0, after = 0; ///< bytes a second
  double factor = 1;            ///< after / before, as --what-if takes it
  Waiting then;
};

/// For the links on which ranks spend the most time on transfers. Nothing where ranks hardly wait, where that level is
/// memory, or where 64 times the bandwidth is not enough.
std::optional<FasterLink> findFasterLink(const timing::Step &step, const timing::Layout &layout);

/// More micro-batches of the same size, so that what moves once a step moves once in a longer step.
struct MoreAccumulation {
  int64_t accumulation = 1, globalBatch = 1;
  Waiting then;
  double tokenTime = 1; ///< seconds per token with these micro-batches
};

/// "remedy: network at 310 MB/s instead of 140 MB/s: ranks wait 190 ms of 3.9 s".
std::string textOf(const FasterLink &remedy);
std::string textOf(const MoreAccumulation &remedy);
nlohmann::ordered_json toJson(const FasterLink &remedy);
nlohmann::ordered_json toJson(const MoreAccumulation &remedy);
MoreAccumulation accumulationFrom(const nlohmann::json &json);

} // namespace dtc
