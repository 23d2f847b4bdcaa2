// Where the ranks of a simulated step stand at a moment: what each does, and what is under way between them.
// Private to timing/events.
#pragma once

#include "runtime/abi/groups.h"
#include "timing/events/step.h"

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dtc::timing {

inline constexpr int Channels = 2 * abi::MaximumChannels; // of what communicates, then of copies

/// Something that has been started by a first rank and is not over everywhere.
struct Flight {
  int encounter = -1;
  const CollectiveCost *cost = nullptr;
  const Move *move = nullptr;
  int missing = 0;     ///< ranks that have not started it
  double gathered = 0; ///< when the last of them started it; it may still queue behind others
  double begin = 0, end = 0;
  double left = 0, at = 0; ///< seconds at full speed that were left at that time
  double speed = 0;
  double width = 0;  ///< of a link's bandwidth, when alone
  double steals = 0; ///< of a processor, at full speed
  uint32_t version = 0;
  enum Phase : uint8_t { Gathering, Moving, Over } phase = Gathering;
  std::vector<int> waiting; ///< classes
};

/// A start of a class, as its wait finds it.
struct Started {
  int flight = -1;
  uint32_t list = 0, action = 0;
  int64_t entry = 0;
  double compute = 0; ///< of its class before
};

/// One rank of a class.
struct Rank {
  size_t entry = 0; ///< of the timetable
  uint32_t action = 0;
  enum Phase : uint8_t { Walking, Computing, Waiting, Over } phase = Walking;
  double now = 0;                                    ///< of what it does: since when, or until when `left` is right
  double left = 0;                                   ///< of a stretch of launches, in seconds at full speed
  std::vector<std::pair<double, double>> marks = {}; ///< for a watcher: times, and how much was done by then
  double begun = 0;                                  ///< the stretch, or the waiting
  uint32_t until = 0;                                ///< action at the stretch's end
  double stolen = 0;                                 ///< of the processor, by what moves
  uint32_t version = 0;
  std::vector<Started> tokens;
  std::vector<std::deque<int>> channels = std::vector<std::deque<int>>(Channels);
  std::vector<int> moving;              ///< flights
  std::vector<double> load;             ///< of each level and direction: full bandwidths that are wanted
  std::unordered_map<int, int64_t> met; ///< by encounter, twice: how often so far
};

struct Event {
  double time;
  int64_t number; ///< of those at one time the one that was foreseen first
  int subject;    ///< a class; or, below zero, flight -1 - subject
  uint32_t version;
  bool operator>(const Event &other) const { return time != other.time ? time > other.time : number > other.number; }
};

} // namespace dtc::timing
