#include "timing/plans/known_holding.h"

#include <algorithm>

namespace dtc::plans {

KnownHolding::KnownHolding(const Pool &pool) : pool(pool), room(pool.context.roomOfAll()), axes(pool.numberOfAxes()) {
  for (uint32_t number = 0; room > 0 && number < pool.entries.size(); ++number) {
    Axes &its = axes[pool.axesOf(number)];
    its.members.push_back(number);
    its.estimate = &estimates[pool.tensorRanksOf(number)];
  }
}

/// What does not fit lacks bytes of whatever is least: of an arena, or with what kernels work in.
void KnownHolding::learn(uint32_t number, const Evaluated &evaluated) {
  if (room == 0 || !evaluated.problem.empty())
    return;
  Holding holding = pool.holdingOf(number);
  double bytes = evaluated.lack > 0 ? room + evaluated.lack : std::min(evaluated.bytes, room);
  Axes &its = axes[pool.axesOf(number)];
  its.known.push_back({holding, bytes});
  its.estimate->learn(holding, bytes);
}

double KnownHolding::leastOf(uint32_t number) const {
  if (room == 0)
    return 0;
  double least = 0;
  const std::vector<Known> &known = axes[pool.axesOf(number)].known;
  if (known.empty())
    return 0;
  Holding its = pool.holdingOf(number);
  for (const Known &each : known)
    if (holdingShare * each.bytes > least && plans::holdsMore(its, each.holding))
      least = holdingShare * each.bytes;
  return least;
}

double KnownHolding::probableOf(uint32_t number) const {
  return room > 0 ? axes[pool.axesOf(number)].estimate->bytesOf(pool.holdingOf(number)) : 0;
}

bool KnownHolding::holdsMore(uint32_t one, uint32_t other) const {
  return room > 0 && pool.axesOf(one) == pool.axesOf(other) &&
         plans::holdsMore(pool.holdingOf(one), pool.holdingOf(other));
}

} // namespace dtc::plans
