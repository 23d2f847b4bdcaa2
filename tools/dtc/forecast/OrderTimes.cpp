#include "tools/dtc/forecast/OrderTimes.h"

#include <algorithm>

namespace dtc {

using timing::Action;

OrderTimes::OrderTimes(const timing::Step &step, int ofClass) : ofClass(ofClass) {
  for (uint32_t list = 0; list < step.lists.size(); ++list)
    for (const Action &action : step.lists[list].actions)
      if (action.kind != Action::Kind::Launch && action.kind != Action::Kind::Copy && action.kind != Action::Kind::Wait)
        starts.insert({list, action.command});
}

void OrderTimes::executed(const timing::Executed &executed) {
  if (executed.ofClass != ofClass)
    return;
  ListedCommand command{executed.list, executed.command};
  if (executed.isStart) {
    started[{command, executed.entry}] = executed.begin;
  } else if (isWait) { // reported right after the transfer that it waits for
    moved.back().waited = executed.begin;
    moved.back().needed = executed.end;
    isWait = false;
  } else if (starts.contains(command)) {
    auto start = started.find({command, executed.entry});
    double since = start == started.end() ? executed.begin : start->second;
    moved.push_back({command, since, executed.begin, executed.end});
    isWait = true;
  } else {
    launches.push_back({command, executed.begin, executed.end});
  }
}

void OrderTimes::addOverlaps(const std::vector<Interval> &sorted, double begin, double end,
                             std::map<ListedCommand, double> &found) const {
  auto next = std::ranges::upper_bound(sorted, begin, {}, &Interval::end);
  for (; next != sorted.end() && next->begin < end; ++next)
    found[next->command] += std::min(end, next->end) - std::max(begin, next->begin);
}

/// A rank's launches follow one another, and so do the transfers of one channel; transfers of different channels may
/// come in any order.
std::map<ListedCommand, OrderTime> OrderTimes::read() const {
  std::vector<Interval> computes = launches;
  std::ranges::sort(computes, {}, &Interval::begin);
  std::map<ListedCommand, OrderTime> all;
  std::map<ListedCommand, double> most;
  for (const Moved &each : moved) {
    OrderTime &time = all[each.command];
    ++time.times;
    time.moving += each.end - each.begin;
    double exposed = std::clamp(each.needed - std::max(each.waited, each.begin), 0.0, each.end - each.begin);
    time.exposed += exposed;
    time.hidden += each.end - each.begin - exposed;
    time.queued += each.begin - each.started;
    time.spare += std::max(0.0, each.waited - each.end);
    addOverlaps(computes, each.begin, each.end, time.behind);
    for (const Moved &other : moved)
      if (&other != &each && other.begin < each.begin && other.end > each.started)
        time.ahead[other.command] += std::min(each.begin, other.end) - std::max(each.started, other.begin);
    if (auto [known, isNew] = most.try_emplace(each.command, exposed); isNew || exposed > known->second) {
      known->second = exposed;
      auto after = std::ranges::lower_bound(computes, each.needed, {}, &Interval::begin);
      auto before = std::ranges::lower_bound(computes, each.started, {}, &Interval::begin);
      time.after = after == computes.end() ? std::nullopt : std::optional(after->command);
      time.before = before == computes.begin() ? std::nullopt : std::optional(std::prev(before)->command);
    }
  }
  return all;
}

} // namespace dtc
