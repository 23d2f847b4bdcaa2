// What the evaluated candidates of a search say about the memory of those that wait.
#pragma once

#include "timing/plans/holding.h"
#include "timing/plans/pool.h"
#include "timing/plans/search.h"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace dtc::plans {

/// Says nothing where devices have unequal memory, or there is no limit.
class KnownHolding {
public:
  /// `pool` outlives it.
  explicit KnownHolding(const Pool &pool);

  void learn(uint32_t number, const Evaluated &evaluated);

  /// Bytes that the fullest rank of a candidate takes at least; 0: nothing is known.
  double leastOf(uint32_t number) const;
  bool isTooMuch(double bytes) const { return room > 0 && bytes > room; }

  double probableOf(uint32_t number) const;
  bool isProbablyTooMuch(uint32_t number) const { return isTooMuch(probableOf(number)); }

  /// Whether one holds at least as much as another, with the same axes.
  bool holdsMore(uint32_t one, uint32_t other) const;
  /// All with the same axes, in order.
  std::span<const uint32_t> membersOf(uint32_t number) const { return axes[pool.axesOf(number)].members; }

private:
  struct Known {
    Holding holding;
    double bytes;
  };
  struct Axes {
    std::vector<uint32_t> members;
    std::vector<Known> known;
    HoldingEstimate *estimate = nullptr;
  };

  const Pool &pool;
  double room;
  std::vector<Axes> axes;
  std::map<int64_t, HoldingEstimate> estimates; ///< by tensor-parallel ranks
};

} // namespace dtc::plans
