// Lays ports and temporaries out in the arena.
#include "passes/schedule/StepPlanner.h"
#include "passes/schedule/Spaces.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace dtc {

/// The visible part begins on a page, which is a huge page where there are such.
constexpr uint64_t pageBytes = 2 << 20;
/// Room between two commands for others that move there.
constexpr int roomInTime = 8;
/// If more than this fraction of all intervals change, the changes are not followed one by one.
constexpr size_t shareFollowed = 64;

Timeline::Timeline(size_t commands) {
  numbers.at.resize(commands);
  FlatOrder order(commands);
  std::iota(order.begin(), order.end(), 0);
  renumber(order);
}

void Timeline::renumber(const FlatOrder &order) {
  int next = 0;
  for (int command : order)
    numbers.at[command] = std::exchange(next, next + roomInTime);
  numbers.end = next;
}

/// Which places in the order keep their numbers: a largest set whose numbers ascend already.
static std::vector<bool> findKept(const FlatOrder &order, const std::vector<int> &at) {
  constexpr size_t none = SIZE_MAX;
  std::vector<size_t> ends, before(order.size(), none); // for each length, the chain that ends lowest
  for (size_t i = 0; i < order.size(); ++i) {
    auto end = std::partition_point(ends.begin(), ends.end(),
                                    [&](size_t other) { return at[order[other]] < at[order[i]]; });
    before[i] = end == ends.begin() ? none : *std::prev(end);
    if (end == ends.end())
      ends.push_back(i);
    else
      *end = i;
  }
  std::vector<bool> kept(order.size());
  for (size_t i = ends.empty() ? none : ends.back(); i != none; i = before[i])
    kept[i] = true;
  return kept;
}

bool Timeline::reorder(const FlatOrder &order) {
  if (std::is_sorted(order.begin(), order.end(), [&](int a, int b) { return numbers.at[a] < numbers.at[b]; }))
    return true;
  std::vector<bool> kept = findKept(order, numbers.at);
  int last = -1;
  for (size_t i = 0; i < order.size();) {
    if (kept[i]) {
      last = numbers.at[order[i++]];
      continue;
    }
    size_t until = i;
    while (until < order.size() && !kept[until])
      ++until;
    int room = (until == order.size() ? numbers.end : numbers.at[order[until]]) - last,
        step = room / static_cast<int>(until - i + 1);
    if (step == 0) {
      renumber(order);
      return false;
    }
    for (; i < until; ++i)
      numbers.at[order[i]] = last += step;
  }
  return true;
}

StepPlanner::StepPlanner(const FlatRole &role) : role(role), homes(role), portOffsets(role.ports.size()) {
  for (const FlatFunction &function : role.functions)
    lists.push_back({Timeline(function.commands.size()), {}, true});
  portsInOrder.resize(role.ports.size());
  std::iota(portsInOrder.begin(), portsInOrder.end(), 0);
  std::erase_if(portsInOrder, [&](int port) { return role.ports[port].isOfMicroBatch; });
  std::sort(portsInOrder.begin(), portsInOrder.end(), [&](int a, int b) {
    return std::pair(role.ports[a].rank, a) < std::pair(role.ports[b].rank, b);
  });
}

/// Follows what has changed, or places everything again if much has.
void StepPlanner::PlannedPart::update(const FunctionHomes &homes, Part part, bool isNew, uint64_t unit) {
  auto wanted = [&](size_t value) {
    const Temporary &temporary = homes.temporaries[value];
    return StorageInterval{temporary.part == part ? temporary.bytes : 0, temporary.first, temporary.last};
  };
  std::vector<size_t> changed;
  for (size_t value = 0; plan && !isNew && value < homes.temporaries.size(); ++value)
    if (StorageInterval interval = wanted(value), old = plan->problem().intervals[value];
        interval != old && (interval.bytes > 0 || old.bytes > 0))
      changed.push_back(value);
  if (plan && !isNew && changed.size() <= homes.temporaries.size() / shareFollowed) {
    for (size_t value : changed)
      plan->change(value, wanted(value));
    return;
  }
  StorageProblem problem{.intervals = {}, .unit = unit};
  for (size_t value = 0; value < homes.temporaries.size(); ++value)
    problem.intervals.push_back(wanted(value));
  plan.emplace(std::move(problem));
}

void StepPlanner::placeTemporaries(Part which, uint64_t begin, uint64_t &end) {
  for (size_t function = 0; function < lists.size(); ++function) {
    PlannedPart &part = lists[function].of(which);
    part.update(homes.of(function), which, lists[function].isNew, role.unit);
    part.begin = begin;
    end = std::max(end, begin + part.plan->solution().end);
  }
}

/// Ports of one kind are next to each other: first those of parameters that decay, and within each group first those
/// with copies, so that one launch can update many (JoinedLaunches.h).
uint64_t StepPlanner::placePorts(bool shared, uint64_t begin) {
  for (int port : portsInOrder)
    if (homes.ownerOf(port) == port && homes.isShared(port) == shared) {
      portOffsets[port] = begin;
      begin = alignTo(begin + role.ports[port].bytes, role.unit);
    }
  return begin;
}

/// Places what belongs to micro-batches under way, as many times as there are such. At a time a place belongs to one
/// micro-batch of one stage, so what different stages have there is in the same bytes.
uint64_t StepPlanner::placeSpaces(bool shared, uint64_t begin) {
  for (uint32_t number = stashSpace; number < hostSpace; ++number) {
    if (dtc::isShared(static_cast<Space>(number)) != shared)
      continue;
    constexpr int64_t several = -1;
    std::map<int64_t, std::vector<int>> ofStages;
    for (int port = 0; port < static_cast<int>(role.ports.size()); ++port)
      if (const FlatPort &each = role.ports[port]; each.isOfMicroBatch && homes.ownerOf(port) == port &&
                                                   each.spaces[homes.isShared(port)] == number)
        ofStages[each.stages.hasOne() ? each.stages.first() : several].push_back(port);
    uint64_t common = begin, end = begin;
    for (const auto &[stage, ports] : ofStages) {
      uint64_t at = common;
      for (int port : ports) {
        portOffsets[port] = at;
        at = alignTo(at + role.ports[port].bytes, role.unit);
      }
      if (stage == several)
        common = at;
      end = std::max(end, at);
    }
    if (end == begin)
      continue;
    extent.spaces.push_back({number, begin, end - begin, role.places[number]});
    begin = extent.spaces.back().end();
  }
  return begin;
}

void StepPlanner::layOut() {
  extent = {};
  uint64_t begin = placePorts(/*shared=*/false, 0), end = begin;
  placeTemporaries(Part::Private, begin, end);
  extent.privateEnd = end;
  extent.shared = alignTo(placeSpaces(/*shared=*/false, end), pageBytes);
  begin = end = placePorts(/*shared=*/true, extent.shared);
  placeTemporaries(Part::Shared, begin, end);
  extent.bytes = end = placeSpaces(/*shared=*/true, end);
  placeTemporaries(Part::Host, extent.bytes, end);
  extent.host = end - extent.bytes;
}

void StepPlanner::plan(const std::vector<FlatOrder> &orders) {
  std::vector<Positions> positions;
  for (size_t function = 0; function < lists.size(); ++function) {
    List &list = lists[function];
    list.isNew = !list.timeline.reorder(orders[function]) || !list.parts[0].plan;
    positions.push_back(list.timeline.positions());
  }
  homes.assign(orders, positions);
  layOut();
}

uint64_t StepPlanner::offsetOf(size_t function, int value) const {
  Home home = homes.of(function).homes[value];
  if (home >= 0)
    return offsetOfPort(home);
  const PlannedPart &part = lists[function].of(homes.of(function).temporaries[-1 - home].part);
  return part.begin + part.plan->solution().offsets[-1 - home];
}

std::vector<std::pair<std::string, uint64_t>> StepPlanner::memoryUse() const {
  std::vector<HeldTensor> tensors;
  for (size_t port = 0; port < role.ports.size(); ++port) {
    uint64_t begin = offsetOfPort(static_cast<int>(port));
    tensors.push_back({begin, alignTo(begin + role.ports[port].bytes, role.unit), role.ports[port].holds});
  }
  return dtc::memoryUse(extent, tensors);
}

} // namespace dtc
