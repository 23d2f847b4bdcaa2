// How much of a simulated step's transfers is hidden, behind what, and what exposes the rest.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/events/simulate.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dtc {

/// One command of a list of the program.
struct ListedCommand {
  uint32_t list = 0, command = 0;
  auto operator<=>(const ListedCommand &) const = default;
};

/// Of one start in a step of one rank, all its runs added up. Seconds.
struct OrderTime {
  int64_t times = 0;
  double moving = 0;  ///< from begin to end of the transfer
  double hidden = 0;  ///< part of that in which the rank computes
  double exposed = 0; ///< part of that in which the rank waits for it
  double queued = 0;  ///< from its start to its begin: for its turn on the channel, or for ranks that arrive later
  double spare = 0;   ///< from its end until it is needed
  std::map<ListedCommand, double> behind; ///< launches that run while it moves
  std::map<ListedCommand, double> ahead;  ///< what moves while it is queued
  std::optional<ListedCommand> before;    ///< the launch right before the start, of the run that is exposed most
  std::optional<ListedCommand> after;     ///< the launch right after the wait, of the same run
};

/// Observes a simulation, for one class of ranks.
class OrderTimes final : public timing::Watcher {
public:
  /// `ofClass`: the class that is observed.
  OrderTimes(const timing::Step &step, int ofClass);

  void executed(const timing::Executed &executed) override;
  /// By the start's list and command, once all events have been seen.
  std::map<ListedCommand, OrderTime> read() const;

private:
  struct Interval {
    ListedCommand command;
    double begin = 0, end = 0;
  };
  struct Moved {
    ListedCommand command;
    double started = 0, begin = 0, end = 0;
    double waited = 0, needed = 0; ///< when the rank began to wait for it, and when it went on
  };
  void addOverlaps(const std::vector<Interval> &sorted, double begin, double end,
                   std::map<ListedCommand, double> &found) const;

  int ofClass;
  std::set<ListedCommand> starts;                              ///< all commands that move something
  std::map<std::pair<ListedCommand, int64_t>, double> started; ///< by command and entry: when
  std::vector<Interval> launches;
  std::vector<Moved> moved;
  bool isWait = false; ///< the next event is the wait for the last transfer reported
};

} // namespace dtc
