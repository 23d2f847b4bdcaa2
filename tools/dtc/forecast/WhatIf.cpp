#include "tools/dtc/forecast/WhatIf.h"

#include "runtime/program/start/command_line.h"
#include "runtime/support/error.h"
#include "runtime/support/suggest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace dtc {

namespace {

struct Change {
  std::string text, what, of; ///< "bandwidth.NVLink=0.5", "bandwidth", "NVLink"
  double factor = 1;
};

[[noreturn]] void refuse(const Change &change, const std::string &why) {
  throw Error(ExitCode::BadInput, fmt::format("--what-if {}: {}", change.text, why));
}

Change parse(const std::string &text) {
  Change change{text, {}, {}};
  size_t equals = text.find('=');
  if (equals == std::string::npos)
    refuse(change, "say what changes and by how much, as in bandwidth=0.5");
  change.what = text.substr(0, equals);
  if (size_t dot = change.what.find('.'); dot != std::string::npos) {
    change.of = change.what.substr(dot + 1);
    change.what.resize(dot);
  }
  char *end = nullptr;
  std::string number = text.substr(equals + 1);
  change.factor = std::strtod(number.c_str(), &end);
  if (number.empty() || *end || !std::isfinite(change.factor) || change.factor <= 0)
    refuse(change, fmt::format("'{}' is not a factor; write a number above 0", number));
  return change;
}

/// Calls visit(level) for the named level, or for all.
template <typename Visit> void forLevels(const Change &change, timing::Cluster &cluster, Visit visit) {
  std::vector<std::string> names;
  bool isFound = false;
  for (timing::Level &level : *cluster.mutable_levels()) {
    names.push_back(level.name());
    if (change.of.empty() || change.of == level.name()) {
      visit(level);
      isFound = true;
    }
  }
  if (!isFound)
    refuse(change, fmt::format("the cluster has no level '{}'{}; its levels are {}", change.of,
                               didYouMean(change.of, names), fmt::join(names, ", ")));
}

void changeBandwidth(const Change &change, timing::Cluster &cluster) {
  forLevels(change, cluster, [&](timing::Level &level) {
    level.set_bandwidth(level.bandwidth() * change.factor);
    if (level.loaded_latency() > 0) // the queue is as long, but drains at the new rate
      level.set_loaded_latency(level.latency() +
                               std::max(0.0, level.loaded_latency() - level.latency()) / change.factor);
    for (timing::Measured &each : *level.mutable_measured())
      each.set_seconds(level.latency() + std::max(0.0, each.seconds() - level.latency()) / change.factor);
  });
}

void changeLatency(const Change &change, timing::Cluster &cluster) {
  forLevels(change, cluster, [&](timing::Level &level) {
    for (timing::Measured &each : *level.mutable_measured())
      each.set_seconds(each.seconds() + level.latency() * (change.factor - 1));
    if (level.loaded_latency() > 0)
      level.set_loaded_latency(level.loaded_latency() + level.latency() * (change.factor - 1));
    level.set_latency(level.latency() * change.factor);
  });
}

} // namespace

void applyWhatIf(const std::string &text, int64_t ranks, timing::Cluster &cluster, timing::Conditions &conditions) {
  Change change = parse(text);
  if (change.what == "bandwidth")
    return changeBandwidth(change, cluster);
  if (change.what == "latency")
    return changeLatency(change, cluster);
  if (change.what == "rank") {
    int64_t rank = -1;
    if (!parseWhole(change.of, rank) || rank < 0 || rank >= ranks)
      refuse(change, fmt::format("there is no rank '{}'; ranks are 0 to {}", change.of, ranks - 1));
    conditions.slowness[rank] = change.factor;
    return;
  }
  if (change.what == "memory" || change.what == "compute") {
    for (timing::Device &device : *cluster.mutable_devices()) {
      if (change.what == "memory")
        device.set_memory_bandwidth(device.memory_bandwidth() * change.factor);
      for (timing::Peak &peak : *device.mutable_peaks())
        if (change.what == "compute")
          peak.set_flops(peak.flops() * change.factor);
    }
    return;
  }
  std::vector<std::string> known = {"bandwidth", "latency", "memory", "compute", "rank"};
  refuse(change, fmt::format("nothing is called '{}'{}; what can change is bandwidth, latency, memory, compute, and "
                             "rank.N. Settings of a model change with --set",
                             change.what, didYouMean(change.what, known)));
}

} // namespace dtc
