#include "timing/plans/bound_context.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/marks.h"
#include "timing/timetables/named.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace dtc::plans {

using abi::Collective;
using timing::Device;
using timing::Level;
using timing::Span;

LeastExchange &LeastExchange::operator+=(const LeastExchange &other) {
  seconds += other.seconds;
  processor += other.processor;
  return *this;
}

static timing::Layout inOneLine(const Problem &problem) {
  abi::Mesh mesh;
  abi::Axis &axis = *mesh.add_axes();
  axis.set_name("rank");
  axis.set_size(problem.devices);
  return timing::Layout(problem.cluster, mesh);
}

BoundContext::BoundContext(const Problem &problem) : of(problem), line(inOneLine(problem)) {
  for (const Level &level : line.cluster().levels()) {
    stallsProcessors |= level.processor_share() > 0;
    for (const timing::Measured &measured : level.measured())
      stallsProcessors |= measured.processor_seconds() > 0;
  }
  measureDevices();
  compareSizes();
}

/// The least ratio of the seconds for a byte that a smaller size takes to those that a larger one takes.
static double wholeShareOf(const Level &level) {
  double share = 1;
  for (const timing::Measured &small : level.measured())
    for (const timing::Measured &large : level.measured())
      if (small.collective() == large.collective() && small.ranks() == large.ranks() && small.bytes() < large.bytes())
        share = std::min(share, small.seconds() / small.bytes() * large.bytes() / large.seconds());
  return share;
}

/// Formulas have parts for each launch or message and parts for each byte, so that one piece takes no longer than
/// several. What was measured may say otherwise; between points of kernels there is a mean of any of them.
void BoundContext::compareSizes() {
  for (const Device &device : line.cluster().devices())
    for (const timing::Efficiency &efficiency : device.efficiencies()) {
      auto [least, most] = std::ranges::minmax_element(efficiency.points(), {}, &timing::Point::share);
      if (least != efficiency.points().end())
        leastWholeShare = std::min(leastWholeShare, least->share() / most->share());
    }
  for (const Level &level : line.cluster().levels())
    leastWholeShare = std::min(leastWholeShare, wholeShareOf(level));
}

/// The largest share that kernels of a class and a type reach: what lies between points is a mean of them.
static double bestShare(const Device &device, abi::Work::Class kind, abi::DataType type) {
  const timing::Efficiency *found = nullptr;
  for (const timing::Efficiency &efficiency : device.efficiencies())
    if (efficiency.kernel_class() == abi::nameOf(kind) &&
        (efficiency.type() == abi::nameOf(type) || (efficiency.type().empty() && !found)))
      found = &efficiency;
  double share = found ? 0 : 1;
  if (found)
    for (const timing::Point &point : found->points())
      share = std::max(share, point.share());
  return share;
}

/// The types that kernels of a step may have: the narrowest of their operands counts.
static std::array<abi::DataType, 3> typesOf(const ModelFacts &model) {
  return {abi::F32, model.compute, model.gradients};
}

static double bestProductRate(const Device &device, const ModelFacts &model) {
  double best = 0;
  for (abi::DataType type : typesOf(model))
    for (abi::Work::Class kind : {abi::Work::PRODUCT, abi::Work::ATTENTION})
      best = std::max(best, timing::peakFlops(device, type) * bestShare(device, kind, type));
  return best;
}

static double bestMemoryRate(const Device &device, const ModelFacts &model) {
  double best = 0;
  for (abi::DataType type : typesOf(model))
    for (abi::Work::Class kind :
         {abi::Work::ELEMENTWISE, abi::Work::REDUCTION, abi::Work::MOVEMENT, abi::Work::INDEXED})
      best = std::max(best, device.memory_bandwidth() * bestShare(device, kind, type));
  return best;
}

/// As the simulator has it: ranks that share fewer cores than they have threads take turns.
static double crowdingOf(const timing::Layout &layout, int64_t position) {
  int64_t cores = layout.coresOfNodeOf(position);
  auto threads = static_cast<double>(layout.ranksOnNodeOf(position) * layout.deviceOf(position).threads());
  return cores > 0 ? std::max(1.0, threads / static_cast<double>(cores)) : 1;
}

/// The least of what ranks have when they share their node's memory evenly, and the most that one of them can have.
static std::pair<double, double> memoriesOf(const timing::Layout &layout) {
  std::vector<double> ofNodes;
  for (const timing::Nodes &nodes : layout.cluster().nodes())
    for (uint32_t i = 0; i < nodes.count() && static_cast<int64_t>(ofNodes.size()) < layout.ranks(); ++i)
      ofNodes.push_back(static_cast<double>(nodes.memory_bytes()));
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (int64_t position = 0; position < layout.ranks(); ++position) {
    auto own = static_cast<double>(layout.deviceOf(position).memory_bytes());
    double shared = ofNodes.at(static_cast<size_t>(layout.nodeOf(position)));
    least = std::min(least, own > 0 ? own : shared / static_cast<double>(layout.ranksOnNodeOf(position)));
    most = std::max(most, own > 0 ? own : shared);
  }
  return {least, most};
}

void BoundContext::measureDevices() {
  leastStepSeconds = std::numeric_limits<double>::infinity();
  std::map<std::pair<int, double>, std::pair<double, double>> known; // rates, by kind of device and crowding
  for (int64_t position = 0; position < line.ranks(); ++position) {
    const Device &device = line.deviceOf(position);
    double crowding = crowdingOf(line, position);
    auto [entry, isNew] = known.try_emplace({line.deviceIndexOf(position), crowding});
    if (isNew)
      entry->second = {bestProductRate(device, of.model) / crowding, bestMemoryRate(device, of.model) / crowding};
    rates.push_back(entry->second.first);
    fastestMemory = std::max(fastestMemory, entry->second.second);
    leastStepSeconds = std::min(leastStepSeconds, device.step_seconds());
  }
  auto [smallest, largest] = memoriesOf(line);
  smallestRoom = roomOf(of); // of the least memory, less the margin
  largestRoom = smallest > 0 ? smallestRoom * largest / smallest : smallestRoom;
  if (of.memoryLimit > 0)
    largestRoom = std::min(largestRoom, std::max(smallestRoom, static_cast<double>(of.memoryLimit)));
  hasEqualRooms = true;
  for (int64_t position = 0; position < line.ranks(); ++position) {
    uint64_t bytes = line.deviceOf(position).memory_bytes();
    hasEqualRooms &= bytes > 0 && bytes == line.deviceOf(0).memory_bytes();
  }
}

double BoundContext::roomFor(const Candidate &candidate) const {
  return candidate.sizeOf("pp") > 1 ? largestRoom : smallestRoom;
}

/// Axes are laid out as timing::Layout does it.
Lane BoundContext::laneOf(const Candidate &candidate, std::string_view name) const {
  const auto &first = line.cluster().axis_order();
  auto comesFirst = [&](const MeshAxis &axis) { return std::ranges::find(first, axis.name) != first.end(); };
  int64_t stride = 1;
  for (const std::string &inner : first)
    for (const MeshAxis &axis : candidate.mesh)
      if (axis.name == inner) {
        if (inner == name)
          return {stride, axis.size};
        stride *= axis.size;
      }
  for (auto axis = candidate.mesh.rbegin(); axis != candidate.mesh.rend(); ++axis) {
    if (comesFirst(*axis))
      continue;
    if (axis->name == name)
      return {stride, axis->size};
    stride *= axis->size;
  }
  return {1, 1};
}

/// Calls visit(members) for each group over the lanes.
template <typename Visit> static void forEachGroup(const Lanes &lanes, int64_t positions, Visit visit) {
  std::vector<int64_t> offsets = {0};
  for (const Lane &lane : lanes) {
    size_t count = offsets.size();
    for (int64_t i = 1; i < lane.size; ++i)
      for (size_t k = 0; k < count; ++k)
        offsets.push_back(offsets[k] + i * lane.stride);
  }
  std::vector<int64_t> members(offsets.size());
  for (int64_t position = 0; position < positions; ++position) {
    bool isFirst = std::ranges::all_of(
        lanes, [&](const Lane &lane) { return position / lane.stride % lane.size == 0; });
    if (!isFirst)
      continue;
    std::ranges::transform(offsets, members.begin(), [&](int64_t offset) { return position + offset; });
    visit(members);
  }
}

const std::vector<Span> &BoundContext::spansOf(const Lanes &lanes) const {
  auto [entry, isNew] = spans.try_emplace(lanes);
  if (isNew)
    forEachGroup(lanes, line.ranks(), [&](const std::vector<int64_t> &members) {
      Span span = line.spanOf(members);
      if (std::ranges::find(entry->second, span) == entry->second.end())
        entry->second.push_back(std::move(span));
    });
  return entry->second;
}

/// Whether the seconds of one collective are a concave function of its bytes: the smallest of several sums of a latency
/// and a multiple of the bytes is. Between hosts the longer of two counts, and measurements may be anything.
bool BoundContext::isConcave(Collective::Kind kind, const Span &span) const {
  int outermost = span.outermost();
  for (int level = 0; level <= outermost; ++level)
    if (span.units[static_cast<size_t>(level)] > 1 && line.cluster().levels(level).transport() == Level::TCP)
      return false;
  return std::ranges::none_of(line.cluster().levels(outermost).measured(), [&](const timing::Measured &measured) {
    return measured.collective() == abi::nameOf(kind);
  });
}

/// The least seconds for a byte over all sizes, so that no way to cut bytes into pieces takes less. Looked for at sizes
/// a sixteenth of an octave apart; what is between two of them takes no less than the shorter, for no more bytes than
/// the larger has.
BoundContext::Slope BoundContext::slopeOf(Collective::Kind kind, const Span &span, abi::DataType type) const {
  std::vector<int64_t> places = span.units;
  places.push_back(span.members);
  auto [entry, isNew] = slopes.try_emplace({std::move(places), static_cast<int>(kind), static_cast<int>(type)});
  Slope &slope = entry->second;
  if (!isNew)
    return slope;
  constexpr int First = 10, Last = 44, Parts = 16; // from 1 KiB to 16 TiB
  slope.seconds = slope.processor = std::numeric_limits<double>::infinity();
  timing::CollectiveCost before = timing::collectiveCost(line.cluster(), kind, std::exp2(First), span, type);
  for (int i = First * Parts + 1; i <= Last * Parts; ++i) {
    double bytes = std::exp2(static_cast<double>(i) / Parts);
    timing::CollectiveCost cost = timing::collectiveCost(line.cluster(), kind, bytes, span, type);
    slope.seconds = std::min(slope.seconds, std::min(before.seconds, cost.seconds) / bytes);
    slope.processor = std::min(slope.processor, std::min(before.processorSeconds, cost.processorSeconds) / bytes);
    before = cost;
  }
  return slope;
}

LeastExchange BoundContext::exchange(const Lanes &lanes, Collective::Kind kind, double bytes,
                                     abi::DataType type) const {
  if (lanes.empty() || bytes <= 0)
    return {};
  constexpr double None = std::numeric_limits<double>::infinity();
  LeastExchange least{None, stallsProcessors ? None : 0};
  for (const Span &span : spansOf(lanes)) {
    if (isConcave(kind, span)) // and not below 0: pieces take no less than the whole
      least.seconds = std::min(least.seconds, timing::collectiveCost(line.cluster(), kind, bytes, span, type).seconds);
    else
      least.seconds = std::min(least.seconds, bytes * slopeOf(kind, span, type).seconds);
    if (stallsProcessors)
      least.processor = std::min(least.processor, bytes * slopeOf(kind, span, type).processor);
  }
  return least;
}

const Rows &BoundContext::rowsOf(Lane pipeline) const {
  auto [entry, isNew] = rows.try_emplace(pipeline);
  Rows &made = entry->second;
  if (!isNew)
    return made;
  std::vector<double> slowest(static_cast<size_t>(pipeline.size), std::numeric_limits<double>::infinity());
  for (size_t position = 0; position < rates.size(); ++position) {
    double &row = slowest[position / static_cast<size_t>(pipeline.stride) % static_cast<size_t>(pipeline.size)];
    row = std::min(row, rates[position]);
  }
  double ranks = static_cast<double>(rates.size()) / static_cast<double>(pipeline.size);
  for (double slow : slowest)
    made.rates.push_back(ranks * slow);
  made.sum = std::accumulate(made.rates.begin(), made.rates.end(), 0.0);
  std::tie(made.least, made.most) = std::pair(std::ranges::min(made.rates), std::ranges::max(made.rates));
  return made;
}

/// The most micro-batches of each stage that are between their forward pass and their input gradient.
static std::vector<double> heldOf(const timetables::Timetable &timetable) {
  std::vector<double> now(timetable.rankOf.size()), most(timetable.rankOf.size());
  for (const std::vector<timetables::Entry> &entries : timetable.ranks)
    for (const timetables::Entry &entry : entries) {
      auto stage = static_cast<size_t>(entry.stage);
      if (entry.kind == timetables::Kind::Forward)
        most[stage] = std::max(most[stage], ++now[stage]);
      else if (timetables::givesInputGradient(entry.kind))
        --now[stage];
    }
  return most;
}

/// What a timetable does with as many micro-batches as are shown.
static TimetableFacts factsOf(const std::string &name, int64_t ranks, int64_t shown) {
  TimetableFacts facts;
  facts.name = name;
  const timetables::Named *named = timetables::findNamed(name);
  if (!named)
    return facts;
  timetables::Shape shape = {static_cast<int32_t>(ranks), named->leastPerRank, static_cast<int32_t>(shown)};
  facts.perRank = named->leastPerRank;
  facts.isInV = named->placement == timetables::Placement::V;
  if (!timetables::findMisfit(*named, shape).empty())
    return facts; // it cannot be compiled, so nothing is said
  timetables::Timetable made = timetables::generate(*named, shape);
  facts.isFlushed = true;
  facts.splitsBackward = timetables::splitsBackward(made);
  facts.held = heldOf(made);
  return facts;
}

/// Behind the first few rounds all timetables keep as many micro-batches in every round, or one more with each: so few
/// rounds show how many.
const TimetableFacts &BoundContext::timetable(const std::string &name, int64_t ranks, int64_t microBatches) const {
  constexpr int64_t Rounds = 4;
  const int64_t shown = std::min(microBatches, Rounds * ranks);
  auto [entry, isNew] = timetables.try_emplace({name, ranks, microBatches});
  if (!isNew)
    return entry->second;
  if (shown == microBatches)
    return entry->second = factsOf(name, ranks, shown);
  entry->second = timetable(name, ranks, shown); // references into a map stay valid
  for (double &held : entry->second.held)        // gpipe, which keeps all
    if (held == static_cast<double>(shown))
      held = static_cast<double>(microBatches);
  return entry->second;
}

} // namespace dtc::plans
