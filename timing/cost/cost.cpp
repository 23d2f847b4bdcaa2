#include "timing/cost/cost.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/marks.h"
#include "timing/cost/collectives.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

namespace dtc::timing {

namespace {

/// What a collective of some size would take on the ranks that were measured, by the formulas.
using Formula = std::function<double(double bytes)>;

/// The measurements of one collective on one level that were made with the number of ranks nearest to the one asked
/// for, by size.
std::vector<const Measured *> findMeasured(const Level &links, const std::string &collective, int64_t ranks) {
  auto distance = [&](const Measured &measured) {
    return std::abs(std::log(static_cast<double>(measured.ranks()) / static_cast<double>(ranks)));
  };
  std::vector<const Measured *> found;
  for (const Measured &measured : links.measured()) {
    if (measured.collective() != collective)
      continue;
    if (!found.empty() && measured.ranks() != found.front()->ranks()) {
      if (distance(measured) >= distance(*found.front()))
        continue;
      found.clear();
    }
    found.push_back(&measured);
  }
  std::sort(found.begin(), found.end(),
            [](const Measured *one, const Measured *other) { return one->bytes() < other->bytes(); });
  return found;
}

/// The two points between which a size lies, and how far it is from one to the other in logarithms: 0 to 1. Beyond all
/// sizes both points are the last one.
struct Between {
  const Measured &below, &above;
  double along = 0;
};

Between between(const std::vector<const Measured *> &points, double bytes) {
  auto after =
      std::find_if(points.begin(), points.end(), [&](const Measured *point) { return point->bytes() >= bytes; });
  if (after == points.begin())
    return {*points.front(), *points.front()};
  if (after == points.end())
    return {*points.back(), *points.back()};
  const Measured &below = **std::prev(after), &above = **after;
  return {below, above, std::log(bytes / below.bytes()) / std::log(above.bytes() / below.bytes())};
}

/// Between two sizes as a power of the size; beyond them as the formula grows.
double measuredSeconds(const std::vector<const Measured *> &points, double bytes, const Formula &formula) {
  auto [below, above, along] = between(points, bytes);
  if (&below != &above)
    return below.seconds() * std::pow(above.seconds() / below.seconds(), along);
  double there = formula(below.bytes());
  return there > 0 ? below.seconds() * formula(bytes) / there : below.seconds();
}

/// What share of the seconds a device's compute stands still; nothing where that was not measured.
std::optional<double> measuredShare(const std::vector<const Measured *> &points, double bytes) {
  auto share = [](const Measured &point) { return point.processor_seconds() / point.seconds(); };
  auto [below, above, along] = between(points, bytes);
  if (below.processor_seconds() == 0 || above.processor_seconds() == 0)
    return std::nullopt;
  return share(below) + along * (share(above) - share(below));
}

/// The route of the measured ranks, which had the links to themselves. If they are as many as the group's, they were
/// spread as the group is; otherwise there was one in each unit of the outermost level.
Route routeThatMeasured(const Cluster &cluster, Span span, int64_t ranks) {
  if (ranks != span.members) {
    int outermost = span.outermost();
    std::fill(span.units.begin(), span.units.end(), 1);
    span.units[static_cast<size_t>(outermost)] = span.members = ranks;
  }
  Route route = routeOf(cluster, span);
  for (Crossing &crossing : route.crossings)
    crossing.bandwidth = std::max(crossing.bandwidth, crossing.linkBandwidth / static_cast<double>(crossing.inside));
  return route;
}

CollectiveCost costOf(const Cluster &cluster, const Parts &parts) {
  CollectiveCost cost;
  std::vector<double> byLevel(static_cast<size_t>(cluster.levels_size()), 0.0);
  for (const Part &part : parts) {
    double seconds = part.latency + part.moving;
    cost.seconds += seconds;
    cost.latency += part.latency;
    cost.processorSeconds += seconds * cluster.levels(part.level).processor_share();
    byLevel[static_cast<size_t>(part.level)] += seconds;
  }
  cost.level = static_cast<int>(std::max_element(byLevel.begin(), byLevel.end()) - byLevel.begin());
  return cost;
}

/// Replaces what the formulas say by what was measured.
void replace(CollectiveCost &cost, double seconds, std::optional<double> share) {
  double factor = seconds / cost.seconds;
  cost.seconds = seconds;
  cost.latency *= factor;
  cost.processorSeconds = share ? seconds * *share : cost.processorSeconds * factor;
  cost.algorithm = "measured";
}

} // namespace

/// Where the outermost level has measurements of the kind, these count: interpolated to the size, and scaled to the
/// group's number of ranks and their places by the formulas.
CollectiveCost collectiveCost(const Cluster &cluster, abi::Collective::Kind kind, double payload, const Span &span,
                              abi::DataType type) {
  int outermost = span.outermost();
  if (outermost < 0)
    return {};
  Exchange exchange = {kind, payload, abi::elementType(type).bytes == 2 ? 2.0 : 1.0};
  Choice choice = cheapest(routeOf(cluster, span), exchange);
  CollectiveCost cost = costOf(cluster, choice.parts);
  cost.algorithm = choice.algorithm;
  std::vector<const Measured *> points = findMeasured(cluster.levels(outermost), abi::nameOf(kind), span.members);
  if (points.empty())
    return cost;
  Route route = routeThatMeasured(cluster, span, points.front()->ranks());
  auto formula = [&](double bytes) { return secondsOf(cheapest(route, {kind, bytes}).parts); }; // f32 was measured
  if (double there = formula(payload); there > 0)
    replace(cost, cost.seconds * measuredSeconds(points, payload, formula) / there, measuredShare(points, payload));
  return cost;
}

CollectiveCost transferCost(const Cluster &cluster, int level, double bytes) {
  const Level &links = cluster.levels(level);
  double bandwidth = links.bandwidth() / std::max<uint32_t>(1, links.shared_by());
  CollectiveCost cost = costOf(cluster, {sending(links, level, bytes, bandwidth)});
  cost.algorithm = "send";
  auto alone = [&](double moved) { return secondsOf({sending(links, level, moved, links.bandwidth())}); };
  std::vector<const Measured *> points = findMeasured(links, "send", 2);
  if (double there = alone(bytes); !points.empty() && there > 0)
    replace(cost, cost.seconds * measuredSeconds(points, bytes, alone) / there, measuredShare(points, bytes));
  return cost;
}

} // namespace dtc::timing
