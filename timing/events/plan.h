// What a simulation needs to know of each class before it begins. Private to timing/events.
#pragma once

#include "timing/events/simulate.h"

#include <memory>
#include <optional>

namespace dtc::timing {

/// A list, as one kind of rank runs it.
struct TimedList {
  std::vector<double> until;      ///< of each action and the end: seconds of launches and copies before it
  std::vector<uint32_t> nextSync; ///< of each action: the first from it on that is no launch and no copy
};

/// The classes that meet in a collective, or the two ends of a transfer: what they start meets in the order of starts.
struct Encounter {
  std::vector<int> classes; ///< of a transfer: sender and receiver
  uint32_t channel = 0;
  int arrivals = 0;        ///< until it is complete
  bool isTransfer = false; ///< from the first class to the last one

  /// Calls visit(class, direction) for each direction of its link in which a member is busy: 0 out, 1 in.
  template <typename Visit> void forEachDirection(Visit visit) const {
    for (int direction : {0, 1})
      if (isTransfer)
        visit(direction == 0 ? classes.front() : classes.back(), direction);
      else
        for (int each : classes)
          visit(each, direction);
  }
};

/// What a start of a class begins.
struct Target {
  int encounter = -1;
  bool receives = false; ///< counted apart from what the same class sends in the encounter
  const CollectiveCost *cost = nullptr;
  double sent = 0; ///< bytes that this rank sends
};

struct SimulationPlan {
  SimulationPlan(const Step &step, const Layout &layout, const Conditions &conditions);

  const Step &step;
  const Layout &layout;
  const Conditions conditions;
  EqualRanks classes;
  std::vector<Encounter> encounters;
  struct OfClass {
    int role = 0;
    double host = 0;                          ///< seconds of a step on top of all commands
    std::vector<const TimedList *> lists;     ///< by list; null: it does not run the list
    std::vector<std::vector<Target>> targets; ///< by list and action
  };
  std::vector<OfClass> ofClass;
  uint32_t places = 1; ///< one more than the highest that entries name

private:
  const TimedList *timedList(uint32_t list, int ofClass);
  void planClass(int number);
  Target targetOf(int number, const Action &action);
  Target targetOfCopy(int number, const Action &action);
  const CollectiveCost *costOf(const Move &move, const Span &span);
  const CollectiveCost *costOfTransfer(double bytes, int level);

  std::map<std::tuple<uint32_t, int, double>, TimedList> timed;     ///< by list, kind of device and slowdown
  std::map<std::pair<uint32_t, std::vector<int>>, int> collectives; ///< encounters by group and classes
  std::map<std::tuple<uint32_t, int, int, int64_t>, int> transfers; ///< by group, sender, receiver, shift
  std::map<std::tuple<int, int, double, std::vector<int64_t>>, CollectiveCost> collectiveCosts;
  std::map<std::pair<double, int>, CollectiveCost> transferCosts;
  std::map<std::pair<int, uint32_t>, int> copyChannels;         ///< encounters by class and channel
  /// By kind of device and work, and whether it is of the host's memory.
  std::map<std::tuple<int, uint32_t, bool>, CollectiveCost> copyCosts;
};

} // namespace dtc::timing
