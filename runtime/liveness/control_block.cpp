#include "runtime/liveness/control_block.h"

#include "runtime/support/error.h"

#include <string>
#include <utility>

namespace dtc {

ControlBlock::ControlBlock(void *memory, int ranks, int self, std::function<bool(int)> alive, std::vector<int> names)
    : memory(memory, ranks), ownRank(self), failures(this->memory),
      presence(this->memory, self, std::move(alive), std::move(names)), arrivals(this->memory, self) {
  uint32_t known = 0;
  if (!this->memory.head().ranks.compare_exchange_strong(known, ranks) && known != uint32_t(ranks))
    throw Error(ExitCode::BadInput, "rank " + std::to_string(nameOf(self)) + " was started as one of " +
                                        std::to_string(ranks) + " ranks, its peers as " + std::to_string(known) +
                                        "; start all ranks with the same count");
}

void ControlBlock::arrive(uint32_t lane, const std::vector<int> &members) { arrivals.arrive(lane, members); }

void ControlBlock::awaitOthers(uint32_t lane, const std::vector<int> &members) {
  arrivals.awaitOthers(lane, members, {presence, beforeSleep});
}

bool ControlBlock::othersHaveArrived(uint32_t lane, const std::vector<int> &members) const {
  return arrivals.othersHaveArrived(lane, members);
}

} // namespace dtc
