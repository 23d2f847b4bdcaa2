#include "timing/cost/collectives.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace dtc::timing {

using abi::Collective;

Route routeOf(const Cluster &cluster, const Span &span) {
  Route route;
  route.members = span.members;
  int64_t inside = 1;
  for (int level = 0; level < static_cast<int>(span.units.size()); ++level) {
    const Level &links = cluster.levels(level);
    int64_t units = span.units[level];
    if (units > 1)
      route.crossings.push_back({&links, level, units, inside, links.latency(),
                                 links.bandwidth() / std::max<uint32_t>(1, links.shared_by()), links.bandwidth()});
    inside *= units;
  }
  return route;
}

double secondsOf(const Parts &parts) {
  double seconds = 0;
  for (const Part &part : parts)
    seconds += part.latency + part.moving;
  return seconds;
}

// The building blocks of the formulas.

static bool anyRoute(const Route &) { return true; }
static bool severalLevels(const Route &route) { return route.crossings.size() > 1; }
static bool oneLevelOfPowerOfTwo(const Route &route) {
  return route.crossings.size() == 1 && std::has_single_bit(static_cast<uint64_t>(route.members));
}

static double log2Up(int64_t count) { return std::bit_width(static_cast<uint64_t>(count - 1)); }
static double log2Of(const Route &route) { return log2Up(route.members); }

/// (p-1)/p.
static double shareOfOthers(const Route &route) {
  return static_cast<double>(route.members - 1) / static_cast<double>(route.members);
}

/// What a group that crosses a level on all its links moves in a second.
static double groupBandwidth(const Crossing &crossing) {
  return crossing.bandwidth * static_cast<double>(crossing.inside);
}
/// What one member moves in a second when it has its link to itself.
static double ownBandwidth(const Crossing &crossing) {
  return std::min(crossing.linkBandwidth, groupBandwidth(crossing));
}
static const Crossing &narrowest(const Route &route) {
  return *std::min_element(
      route.crossings.begin(), route.crossings.end(),
      [](const Crossing &one, const Crossing &other) { return groupBandwidth(one) < groupBandwidth(other); });
}

/// Adds the time that the narrowest level takes to move this many bytes past each member.
static Parts moved(Parts parts, const Route &route, double bytes) {
  const Crossing &crossing = narrowest(route);
  for (Part &part : parts)
    if (part.level == crossing.level)
      part.moving += bytes / groupBandwidth(crossing);
  return parts;
}

/// The latencies of p-1 hops from member to member, each unit entered once, `times` over. The hop that would close the
/// circle, which is not made, is one of the innermost.
static Parts hops(const Route &route, double times) {
  Parts parts;
  int64_t beyond = 0; // hops over outer levels
  for (size_t i = route.crossings.size(); i-- > 0;) {
    const Crossing &crossing = route.crossings[i];
    int64_t units = std::max<int64_t>(1, beyond) * crossing.units; // of this level, altogether
    int64_t count = i == 0 ? route.members - 1 - beyond : units - beyond;
    parts.insert(parts.begin(), {crossing.level, times * static_cast<double>(count) * crossing.latency, 0});
    beyond = units;
  }
  return parts;
}

// Formulas, as the table of the header has them.

static Parts ringAllReduce(const Route &route, const Exchange &exchange) {
  return moved(hops(route, 2), route, 2 * shareOfOthers(route) * exchange.payload);
}
static Parts ringHalf(const Route &route, const Exchange &exchange) {
  return moved(hops(route, 1), route, shareOfOthers(route) * exchange.payload);
}

static Parts doubleTree(const Route &route, const Exchange &exchange) {
  Parts parts;
  for (const Crossing &crossing : route.crossings)
    parts.push_back({crossing.level, 2 * log2Up(crossing.units) * crossing.latency, 0});
  return moved(std::move(parts), route, 2 * exchange.payload);
}

/// This many rounds on one level, and this many bytes in all of them together.
static Parts rounds(const Route &route, double count, double bytes) {
  const Crossing &crossing = route.crossings.front();
  return {{crossing.level, count * crossing.latency, bytes / groupBandwidth(crossing)}};
}
static Parts recursiveDoubling(const Route &route, const Exchange &exchange) {
  return rounds(route, log2Of(route), log2Of(route) * exchange.payload);
}
/// Recursive halving, or recursive doubling of what grows.
static Parts recursiveHalf(const Route &route, const Exchange &exchange) {
  return rounds(route, log2Of(route), shareOfOthers(route) * exchange.payload);
}
static Parts halvingDoubling(const Route &route, const Exchange &exchange) {
  return rounds(route, 2 * log2Of(route), 2 * shareOfOthers(route) * exchange.payload);
}

/// Each member exchanges a p-th with every other member, one after the other.
static Parts pairwise(const Route &route, const Exchange &exchange) {
  Parts parts;
  for (const Crossing &crossing : route.crossings) {
    auto peers = static_cast<double>(crossing.inside * (crossing.units - 1));
    double bytes = exchange.payload / static_cast<double>(route.members);
    parts.push_back({crossing.level, peers * crossing.latency, peers * bytes / crossing.bandwidth});
  }
  return parts;
}

static Parts binomialTree(const Route &route, const Exchange &exchange) {
  Parts parts;
  for (const Crossing &crossing : route.crossings) {
    double count = log2Up(crossing.units);
    parts.push_back({crossing.level, count * crossing.latency, count * exchange.payload / ownBandwidth(crossing)});
  }
  return parts;
}

/// Where the latency of all hops is `latency` and the payload takes `moving` to pass one: with s segments
/// (p-2+s) (latency / (p-1) + moving / s), which is smallest at s = sqrt((p-2) (p-1) moving / latency).
static Parts chain(const Route &route, const Exchange &exchange) {
  double moving = exchange.payload / groupBandwidth(narrowest(route));
  double latency = secondsOf(hops(route, 1)), before = static_cast<double>(route.members - 2);
  auto steps = [&](double segments) { return before + segments; };
  auto seconds = [&](double segments) { return steps(segments) * (latency / (before + 1) + moving / segments); };
  double most = std::max(1.0, exchange.payload); // of a byte each
  double best = latency > 0 ? std::sqrt(before * (before + 1) * moving / latency) : before > 0 ? most : 1;
  double segments = std::clamp(std::floor(best), 1.0, most), next = std::min(segments + 1, most);
  if (seconds(next) < seconds(segments))
    segments = next;
  return moved(hops(route, steps(segments) / (before + 1)), route, steps(segments) / segments * exchange.payload);
}

/// In shared memory all wait for all, each moves what it must from or to each peer itself, and all wait again.
static constexpr double Meetings = 2;

Part sending(const Level &links, int level, double bytes, double bandwidth) {
  double trips = links.transport() == Level::SHARED_MEMORY ? Meetings : 1;
  return {level, trips * links.latency(), bytes / bandwidth};
}

static Parts direct(const Route &route, const Exchange &exchange) {
  Parts parts;
  double slice = exchange.payload / static_cast<double>(route.members);
  for (const Crossing &crossing : route.crossings) {
    double bytes = static_cast<double>(crossing.inside * (crossing.units - 1)) * slice;
    if (exchange.kind == Collective::ALL_REDUCE) // the terms, and the sums
      bytes *= 2;
    parts.push_back({crossing.level, 0, bytes / crossing.bandwidth});
  }
  parts.back().latency = Meetings * route.crossings.back().latency;
  return parts;
}
static Parts directBroadcast(const Route &route, const Exchange &exchange) {
  const Crossing &crossing = route.crossings.back();
  return {{crossing.level, Meetings * crossing.latency, exchange.payload / crossing.bandwidth}};
}

/// The innermost level, and all the others, where one unit counts as one member.
static std::pair<Route, Route> split(const Route &route) {
  const Crossing &inner = route.crossings.front();
  Route within{{inner}, inner.units}, between;
  between.members = (route.members + inner.units - 1) / inner.units;
  for (size_t i = 1; i < route.crossings.size(); ++i) {
    between.crossings.push_back(route.crossings[i]);
    between.crossings.back().inside /= inner.units; // the others' share of the links is used by their groups
  }
  return {within, between};
}
static void append(Parts &parts, const Parts &others) { parts.insert(parts.end(), others.begin(), others.end()); }

static Parts hierarchicalOf(const Route &route, const Exchange &exchange,
                            std::initializer_list<Collective::Kind> kindsWithin) {
  auto [within, between] = split(route);
  Parts parts;
  for (Collective::Kind kind : kindsWithin)
    append(parts, cheapest(within, {kind, exchange.payload, exchange.widening}).parts);
  double each = exchange.payload / static_cast<double>(within.members);
  append(parts, cheapest(between, {exchange.kind, each, exchange.widening}).parts);
  return parts;
}
static Parts hierarchicalAllReduce(const Route &route, const Exchange &exchange) {
  return hierarchicalOf(route, exchange, {Collective::REDUCE_SCATTER, Collective::ALL_GATHER});
}
static Parts hierarchicalHalf(const Route &route, const Exchange &exchange) {
  return hierarchicalOf(route, exchange, {exchange.kind});
}

// The next formulas follow runtime/comm/hosts.

/// Up to this many bytes, members that are each on a host of their own send each other all terms.
static constexpr double SmallBytes = 64 << 10;

namespace {
/// A group on several hosts: its members within one host, and what leads out of the hosts.
struct Hosts {
  explicit Hosts(const Route &route) {
    for (const Crossing &crossing : route.crossings)
      (crossing.links->transport() == Level::SHARED_MEMORY ? within.crossings : between.crossings).push_back(crossing);
    for (const Crossing &crossing : within.crossings)
      within.members *= crossing.units;
    for (const Crossing &crossing : between.crossings)
      between.members *= crossing.units;
  }
  /// What crosses between hosts: from each member `bytes` to each other host.
  Parts cross(double trips, double bytes) const {
    Parts parts;
    for (const Crossing &crossing : between.crossings) {
      auto others = static_cast<double>(crossing.inside / within.members * (crossing.units - 1));
      parts.push_back({crossing.level, trips * crossing.latency, others * bytes / crossing.bandwidth});
    }
    return parts;
  }

  Route within, between;
};
} // namespace

static Parts betweenHosts(const Route &route, const Exchange &exchange) {
  Hosts hosts(route);
  bool reduces = exchange.kind == Collective::ALL_REDUCE || exchange.kind == Collective::REDUCE_SCATTER;
  auto here = static_cast<double>(hosts.within.members), count = static_cast<double>(hosts.between.members);
  double part = exchange.payload / count; // one host's
  Parts parts;
  if (exchange.kind == Collective::ALL_TO_ALL)
    parts = hosts.cross(1, part);
  else if (exchange.kind == Collective::ALL_GATHER)
    parts = hosts.cross(1, part / here);
  else if (exchange.kind == Collective::REDUCE_SCATTER)
    parts = hosts.cross(1, std::min(1.0, exchange.widening / here) * part);
  else if (here == 1 && (count - 1) * exchange.payload <= SmallBytes)
    parts = hosts.cross(1, exchange.payload);
  else
    parts = hosts.cross(2, (1 + (here > 1 ? exchange.widening : 1)) * part / here);
  if (here == 1)
    return parts;
  bool isExchange = exchange.kind == Collective::ALL_TO_ALL; // in which neighbours get only their part
  Parts inner = direct(hosts.within, {exchange.kind, isExchange ? part : exchange.payload});
  // Sums are formed while others are still arriving.
  if (reduces)
    for (Parts *shorter = secondsOf(inner) < secondsOf(parts) ? &inner : &parts; Part & part : *shorter)
      part.moving = 0;
  append(inner, parts);
  return inner;
}

/// The root sends to one member of each other host; the others there take it from that one.
static Parts broadcastBetweenHosts(const Route &route, const Exchange &exchange) {
  Hosts hosts(route);
  Parts parts;
  for (const Crossing &crossing : hosts.between.crossings) {
    auto others = static_cast<double>(crossing.inside / hosts.within.members * (crossing.units - 1));
    parts.push_back({crossing.level, crossing.latency, others * exchange.payload / ownBandwidth(crossing)});
  }
  if (hosts.within.members > 1)
    append(parts, directBroadcast(hosts.within, exchange));
  return parts;
}

/// Every algorithm there is. Where two take equally long, the first one counts.
static constexpr std::array<Algorithm, 24> Table = {{
    {"ring", Collective::ALL_REDUCE, Level::LIBRARY, anyRoute, ringAllReduce},
    {"tree", Collective::ALL_REDUCE, Level::LIBRARY, anyRoute, doubleTree},
    {"recursive doubling", Collective::ALL_REDUCE, Level::LIBRARY, oneLevelOfPowerOfTwo, recursiveDoubling},
    {"halving-doubling", Collective::ALL_REDUCE, Level::LIBRARY, oneLevelOfPowerOfTwo, halvingDoubling},
    {"hierarchical", Collective::ALL_REDUCE, Level::LIBRARY, severalLevels, hierarchicalAllReduce},
    {"ring", Collective::ALL_GATHER, Level::LIBRARY, anyRoute, ringHalf},
    {"recursive doubling", Collective::ALL_GATHER, Level::LIBRARY, oneLevelOfPowerOfTwo, recursiveHalf},
    {"hierarchical", Collective::ALL_GATHER, Level::LIBRARY, severalLevels, hierarchicalHalf},
    {"ring", Collective::REDUCE_SCATTER, Level::LIBRARY, anyRoute, ringHalf},
    {"recursive halving", Collective::REDUCE_SCATTER, Level::LIBRARY, oneLevelOfPowerOfTwo, recursiveHalf},
    {"hierarchical", Collective::REDUCE_SCATTER, Level::LIBRARY, severalLevels, hierarchicalHalf},
    {"pairwise", Collective::ALL_TO_ALL, Level::LIBRARY, anyRoute, pairwise},
    {"binomial tree", Collective::BROADCAST, Level::LIBRARY, anyRoute, binomialTree},
    {"chain", Collective::BROADCAST, Level::LIBRARY, anyRoute, chain},
    {"direct", Collective::ALL_REDUCE, Level::SHARED_MEMORY, anyRoute, direct},
    {"direct", Collective::ALL_GATHER, Level::SHARED_MEMORY, anyRoute, direct},
    {"direct", Collective::REDUCE_SCATTER, Level::SHARED_MEMORY, anyRoute, direct},
    {"direct", Collective::ALL_TO_ALL, Level::SHARED_MEMORY, anyRoute, direct},
    {"direct", Collective::BROADCAST, Level::SHARED_MEMORY, anyRoute, directBroadcast},
    {"between hosts", Collective::ALL_REDUCE, Level::TCP, anyRoute, betweenHosts},
    {"between hosts", Collective::ALL_GATHER, Level::TCP, anyRoute, betweenHosts},
    {"between hosts", Collective::REDUCE_SCATTER, Level::TCP, anyRoute, betweenHosts},
    {"between hosts", Collective::ALL_TO_ALL, Level::TCP, anyRoute, betweenHosts},
    {"between hosts", Collective::BROADCAST, Level::TCP, anyRoute, broadcastBetweenHosts},
}};

std::span<const Algorithm> algorithms() { return Table; }

Choice cheapest(const Route &route, const Exchange &exchange) {
  Choice best;
  double least = std::numeric_limits<double>::infinity();
  Level::Transport transport = route.crossings.back().links->transport();
  for (const Algorithm &algorithm : algorithms()) {
    if (algorithm.kind != exchange.kind || algorithm.transport != transport || !algorithm.takes(route))
      continue;
    Parts parts = algorithm.parts(route, exchange);
    if (double seconds = secondsOf(parts); seconds < least) {
      least = seconds;
      best = {algorithm.name, std::move(parts)};
    }
  }
  return best;
}

} // namespace dtc::timing
