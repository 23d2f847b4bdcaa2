// Where everything that a role's functions touch is in the arena, for any order of their commands.
//
// One arena serves all command lists. Its first part is private to the rank, its second part is visible to the peers on
// the same host and holds the operands and results of collectives. Each part begins with the ports that live for the
// whole run, parameters, gradients and each slot next to each other in one order; temporaries of the lists follow, and
// share memory where their lifetimes do not overlap; then what belongs to micro-batches under way, as many times as
// there are such.
//
// It is asked again and again. For an order that differs little from the one before, it follows only what has changed
// (StoragePlan.h): commands keep their numbers in time, and what moves gets one between its new neighbours'.
#pragma once

#include "passes/schedule/memory/Homes.h"
#include "passes/schedule/memory/StoragePlan.h"

#include <optional>

namespace dtc {

/// Numbers of a function's commands in time, kept while some of them move.
class Timeline {
public:
  explicit Timeline(size_t commands);
  /// Numbers for a new order: most commands keep theirs. Returns false if there was no room left: then all have new
  /// ones.
  bool reorder(const FlatOrder &order);
  const Positions &positions() const { return numbers; }

private:
  void renumber(const FlatOrder &order);
  Positions numbers;
};

class StepPlanner {
public:
  /// `role` must outlive this object.
  explicit StepPlanner(const FlatRole &role);

  /// Lays everything out for these orders of the functions' commands, which must be valid (findOrderProblem).
  void plan(const std::vector<FlatOrder> &orders);

  /// The arena for the orders that were planned last.
  const ArenaExtent &arena() const { return extent; }
  std::vector<std::pair<std::string, uint64_t>> memoryUse() const;
  /// From the arena's beginning.
  uint64_t offsetOfPort(int port) const { return portOffsets[homes.ownerOf(port)]; }
  uint64_t offsetOf(size_t function, int value) const;
  const FunctionHomes &homesOf(size_t function) const { return homes.of(function); }
  /// The end of a function's numbers in time.
  int endOf(size_t function) const { return lists[function].timeline.positions().end; }

private:
  /// The temporaries of one list in one part: an interval for each value of the function.
  struct PlannedPart {
    std::optional<StoragePlan> plan;
    uint64_t begin = 0;
    void update(const FunctionHomes &homes, Part part, bool isNew, uint64_t unit);
  };
  struct List {
    Timeline timeline;
    std::array<PlannedPart, 3> parts; ///< by Part
    bool isNew = true;
    PlannedPart &of(Part part) { return parts[static_cast<size_t>(part)]; }
    const PlannedPart &of(Part part) const { return parts[static_cast<size_t>(part)]; }
  };

  void placeTemporaries(Part part, uint64_t begin, uint64_t &end);
  uint64_t placePorts(bool shared, uint64_t begin);
  uint64_t placeSpaces(bool shared, uint64_t begin);
  void layOut();

  const FlatRole &role;
  Homes homes;
  std::vector<List> lists;          ///< of the functions
  std::vector<int> portsInOrder;    ///< that live for the whole run
  std::vector<uint64_t> portOffsets; ///< of owners
  ArenaExtent extent;
};

} // namespace dtc
