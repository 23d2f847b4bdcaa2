#include "timing/cost/cost.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/marks.h"
#include "timing/cost/collectives.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace dtc::timing {

namespace {

/// What a collective of some size would take on the ranks that were measured, by the formulas.
using Formula = std::function<double(double bytes)>;

/// The measurements of one collective on one level that were made with the number of ranks nearest to what is asked
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

/// Between two sizes as a power of the size; beyond them as the formula grows.
double measuredSeconds(const std::vector<const Measured *> &points, double bytes, const Formula &formula) {
  auto after =
      std::find_if(points.begin(), points.end(), [&](const Measured *point) { return point->bytes() >= bytes; });
  if (after != points.end() && (*after)->bytes() == bytes)
    return (*after)->seconds();
  if (after == points.begin() || after == points.end()) {
    const Measured &end = after == points.end() ? *points.back() : *points.front();
    double there = formula(end.bytes());
    return there > 0 ? end.seconds() * formula(bytes) / there : end.seconds();
  }
  const Measured &below = **std::prev(after), &above = **after;
  double along = std::log(bytes / below.bytes()) / std::log(above.bytes() / below.bytes());
  return below.seconds() * std::pow(above.seconds() / below.seconds(), along);
}

/// The way of the ranks that measured, which had the links for themselves: as many as in the group lay as it does,
/// others one in each unit of the outermost level.
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

void scale(CollectiveCost &cost, double factor) {
  cost.seconds *= factor;
  cost.latency *= factor;
  cost.processorSeconds *= factor;
  cost.algorithm = "measured";
}

} // namespace

/// Where the outermost level has measurements of the kind, these count: interpolated to the size, and taken to the
/// group's number of ranks and their places as the formulas say.
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
  auto formula = [&](double bytes) { return secondsOf(cheapest(route, {kind, bytes, exchange.widening}).parts); };
  double there = formula(payload);
  if (there > 0)
    scale(cost, measuredSeconds(points, payload, formula) / there);
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
    scale(cost, measuredSeconds(points, bytes, alone) / there);
  return cost;
}

} // namespace dtc::timing
