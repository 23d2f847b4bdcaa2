#include "tools/dtc/forecast/CollectiveTimes.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/volume.h"

namespace dtc {

CollectiveTimes::CollectiveTimes(const abi::Manifest &manifest, const timing::Layout &layout)
    : manifest(manifest), onLayout(layout) {
  if (manifest.has_generation())
    return; // a program without a step; its collectives still take their time
  timing::Forecast forecast = timing::forecastStep(manifest, layout);
  step = forecast.seconds;
  for (const timing::Culprit &culprit : forecast.culprits)
    waits.emplace(std::pair(culprit.list, culprit.command), culprit);
}

CollectiveTime CollectiveTimes::of(const abi::Role &role, const abi::CommandList &list, int number) const {
  int first = number;
  while (abi::isPart(list, first))
    --first;
  const abi::Collective &collective = list.commands(first).start();
  Group group =
      Mesh(manifest.mesh()).group(abi::firstRankOf(role), manifest.groups(static_cast<int>(collective.group())));
  double whole = 0;
  for (int part = first;; ++part) {
    whole += abi::payloadBytes(list.commands(part).start(), group.size());
    if (!list.commands(part).start().more())
      break;
  }
  double share = whole > 0 ? abi::payloadBytes(list.commands(number).start(), group.size()) / whole : 0;
  std::vector<int64_t> members(group.ranks.begin(), group.ranks.end());
  timing::CollectiveCost cost =
      timing::collectiveCost(onLayout.cluster(), collective.kind(), whole, onLayout.spanOf(members), collective.type());
  CollectiveTime time{share * cost.seconds, std::string(cost.algorithm), /*level=*/""};
  if (cost.level >= 0)
    time.level = onLayout.cluster().levels(cost.level).name();
  if (auto wait = waits.find({list.name(), static_cast<uint32_t>(first)}); wait != waits.end()) {
    time.exposed = share * wait->second.moving;
    time.late = share * wait->second.late;
  }
  return time;
}

double CollectiveTimes::ofSend(const abi::Role &role, const abi::Command &command) const {
  const abi::Transfer &transfer = abi::transferOf(command);
  int rank = abi::firstRankOf(role);
  int peer =
      Mesh(manifest.mesh()).neighbour(rank, manifest.groups(static_cast<int>(transfer.group())), transfer.shift());
  auto bytes = static_cast<double>(abi::bytesEach(command));
  return timing::transferCost(onLayout.cluster(), onLayout.levelBetween(rank, peer), bytes).seconds;
}

} // namespace dtc
