// Collectives in closed form: how long each algorithm takes over the links that a group crosses.
//
// The model is Hockney's: a message of n bytes takes latency + n / bandwidth. M is the payload as abi::payloadBytes
// counts it, p the number of members, B bytes a second in one direction. For a group on one level the formulas are the
// literature's:
//
//   algorithm            what                latency             moving           source
//   ring                 all-reduce          2 (p-1)             2 (p-1)/p M/B    Patarasuk, Yuan 2009
//                        all-gather, r.-s.   (p-1)               (p-1)/p M/B      Thakur, Rabenseifner, Gropp 2005
//   tree (double)        all-reduce          2 ceil(log2 p)      2 M/B            Sanders, Speck, Traeff 2009; NCCL
//   recursive doubling   all-reduce          log2 p              log2 p M/B       Thakur et al. 2005
//                        all-gather          log2 p              (p-1)/p M/B
//   recursive halving    reduce-scatter      log2 p              (p-1)/p M/B
//   halving-doubling     all-reduce          2 log2 p            2 (p-1)/p M/B    Rabenseifner 2004
//   pairwise             all-to-all          (p-1)               (p-1)/p M/B      Thakur et al. 2005
//   binomial tree        broadcast           ceil(log2 p)        ceil(log2 p) M/B Thakur et al. 2005
//   chain (pipelined)    broadcast           (p-2+s) (latency + M/(s B)), the best number of segments s
//   direct               all                 2                   as a ring, or M/B dtc, in shared memory
//
// (Recursive ones are used only for powers of two.)
//
// For a group on several levels:
//
// - Links are shared. All devices of a node do the same at the same time, each in its group. So one device gets
//   bandwidth / shared_by of the links that lead out of its unit (its node, say), and a group with g members in each
//   unit gets g times that: its node has d / shared_by links, which d / g groups use at once. With a network card for
//   each device, shared_by = 1 and the group has g cards; with eight devices behind one card, shared_by = 8, and a
//   group of all of them has the whole card. Where only one member sends (a broadcast's root), it has no more than its
//   own link.
// - A ring, a tree and a chain pass from unit to unit as rarely as they can, over as many links as the group has: they
//   move at the speed of the narrowest level, and their latencies add up along the way: a ring through H nodes of g
//   crosses between nodes H times and within them H (g - 1) times.
// - hierarchical: reduce-scatter within, all-reduce between, a g-th each, all-gather within, each with the best
//   algorithm (all-gather and reduce-scatter: likewise, in two).
// - between hosts: as runtime/comm/hosts does it. Members of a host add first, in shared memory; member i of each host
//   exchanges a g-th with members i of the others, directly; both happen at the same time, so the longer one counts.
//   Sums of 16-bit elements travel in 32. What is gathered crosses once for each host.
//
// Groups that are spread unevenly count as equally wide everywhere: as wide as in their widest place.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/cluster/cluster.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace dtc::timing {

/// The part of one level that a group crosses.
struct Crossing {
  const Level *links = nullptr;
  int level = 0;      ///< index into Cluster.levels
  int64_t units = 1;  ///< that it joins, each with members of the group
  int64_t inside = 1; ///< members in each of the units
  double latency = 0;
  double bandwidth = 0;     ///< of one device, when all do the same
  double linkBandwidth = 0; ///< of one link
};

/// The levels that a group crosses, inner ones first. Levels of which it has only one unit are left out. Refers to the
/// cluster.
struct Route {
  std::vector<Crossing> crossings; ///< at least one
  int64_t members = 1;
};
Route routeOf(const Cluster &cluster, const Span &span);

/// What is exchanged.
struct Exchange {
  abi::Collective::Kind kind = abi::Collective::ALL_REDUCE;
  double payload = 0;
  double widening = 1; ///< how many times wider than the elements their sums are, where these travel as f32
};

/// A part of the time, spent on one level.
struct Part {
  int level = 0;
  double latency = 0, moving = 0; ///< seconds
};
using Parts = std::vector<Part>;
double secondsOf(const Parts &parts);

/// A way to carry out one kind of collective.
struct Algorithm {
  std::string_view name;
  abi::Collective::Kind kind;
  Level::Transport transport; ///< of the outermost level crossed
  bool (*takes)(const Route &route);
  Parts (*parts)(const Route &route, const Exchange &exchange);
};
std::span<const Algorithm> algorithms();

/// The cheapest of them. Does not use measurements.
struct Choice {
  std::string_view algorithm;
  Parts parts;
};
Choice cheapest(const Route &route, const Exchange &exchange);

/// A message to another member, from one that has this much bandwidth on that level.
Part sending(const Level &links, int level, double bytes, double bandwidth);

} // namespace dtc::timing
