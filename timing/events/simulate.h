// Discrete events over the command lists of a step: when each command runs, on ranks that compute, move and wait.
//
// The model. A rank has a compute stream, which walks the entries of its timetable and waits where they say so, and
// channels. What is started queues on its channel; it begins when it is first in the queue of every rank that takes
// part, and takes what cost.h says. While it moves,
//   - what moves over the same level of links of the same rank in one direction shares their bandwidth: two that want
//     all of it take twice as long side by side. Collectives move both ways; what begins on links that others fill
//     first waits for Level.loaded_latency;
//   - the rank's compute loses Level.processor_share of its speed, or what was measured, where a processor does the
//   moving:
//     the less, the slower it moves.
// One rank of each class is simulated (classes.h). Equal input gives equal output, to the bit.
#pragma once

#include "timing/events/classes.h"
#include "timing/events/step.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dtc::timing {

/// What is different from what the cluster file says.
struct Conditions {
  std::map<int64_t, double> slowness = {}; ///< of some ranks: their kernels take so many times as long
  bool unlimited = false;                  ///< channels, links and processors for everything: only who waits for whom
  /// Seconds of launches and copies that were measured, by list and command; others are modelled.
  std::map<std::pair<std::string, uint32_t>, double> measured = {};
};

/// How long a class waited for one command, in all.
struct Exposed {
  uint32_t list = 0, command = 0; ///< the start's, in the program
  double late = 0;                ///< of the waiting, until the last rank had come
  double moving = 0;              ///< of the waiting, while it moved, or what is before it on its channel
  int64_t times = 0;
};

/// A place in what a class does, in order: an entry of its timetable, and the seconds of compute before.
struct Place {
  size_t entry = 0;
  double compute = 0;
};

/// Of an entry: when it ends, and the seconds of compute until then.
struct EntryEnd {
  double time = 0, compute = 0;
};

/// Something that a rank moves over one of its links.
struct LinkUse {
  size_t link = 0;    ///< twice the level, and one more for what comes in
  double from = 0;    ///< when it can begin at the earliest
  double seconds = 0; ///< of the link's full bandwidth
  Place start, wait;  ///< of this rank
};

struct ClassTimes {
  double end = 0;
  double compute = 0;           ///< of its kernels and copies, had they the device for themselves
  double host = 0;              ///< beside all commands
  double stolen = 0;            ///< by which they took longer, because the processor moved something
  std::vector<Exposed> exposed; ///< the longest first
  std::vector<double> moved;    ///< of each level: bytes that one rank sends over it
  std::vector<double> busy;     ///< of each level: seconds in which something moved, added up
  std::vector<double> needed;   ///< of each level and direction, out before in: seconds of its full bandwidth
  std::vector<double> worked;   ///< of these: seconds in which the rank's processor moves and does not compute
  std::vector<LinkUse> uses;    ///< where everything is unlimited: in the order of their waits
  std::vector<EntryEnd> ends;   ///< where everything is unlimited

  double late() const;
  double moving() const;
};

struct Simulated {
  double seconds = 0;
  std::vector<ClassTimes> classes;
  int64_t actions = 0; ///< that were walked, over all classes
};

/// One action, or a part of it: what is started is told when it is started, and once it has been waited for.
struct Executed {
  int ofClass;
  uint32_t list, command;
  int64_t entry;        ///< of the role's entries
  double begin, end;    ///< seconds from the step's begin; of what was started: while it moved
  bool isStart = false; ///< compute starts it and goes on
};
class Watcher {
public:
  virtual ~Watcher() = default;
  virtual void executed(const Executed &executed) = 0;
};

/// Simulates a step on the ranks of a layout, whose mesh is the step's. `watcher` hears of each action, in no order.
/// Throws Error (Runtime) where ranks wait for each other for ever.
Simulated simulate(const Step &step, const Layout &layout, const Conditions &conditions = {},
                   Watcher *watcher = nullptr);

struct SimulationPlan;

/// The same, again and again: what does not change is worked out once.
class Simulator {
public:
  /// The step and the layout outlive it.
  Simulator(const Step &step, const Layout &layout, const Conditions &conditions = {});
  ~Simulator();
  Simulated run(Watcher *watcher = nullptr);
  const EqualRanks &classes() const;

private:
  std::unique_ptr<SimulationPlan> plan;
};

} // namespace dtc::timing
