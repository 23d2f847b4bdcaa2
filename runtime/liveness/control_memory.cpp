#include "runtime/liveness/control_memory.h"

namespace dtc {

static uint64_t counterRowBytes(int ranks) { return (uint64_t(ranks) * sizeof(uint32_t) + 63) / 64 * 64; }

uint64_t ControlMemory::bytesFor(int ranks) {
  return sizeof(Head) + uint64_t(ranks) * (sizeof(RankState) + Lanes * (sizeof(LaneState) + counterRowBytes(ranks)));
}

ControlMemory::ControlMemory(void *memory, int ranks) : first(static_cast<Head *>(memory)), rankCount(ranks) {
  states = reinterpret_cast<RankState *>(static_cast<std::byte *>(memory) + sizeof(Head));
  lanes = reinterpret_cast<LaneState *>(states + ranks);
  counters = reinterpret_cast<std::byte *>(lanes + size_t(Lanes) * ranks);
}

std::atomic<uint32_t> &ControlMemory::counter(uint32_t lane, int at, int by) const {
  uint64_t row = uint64_t(lane) * rankCount + at;
  return reinterpret_cast<std::atomic<uint32_t> *>(counters + row * counterRowBytes(rankCount))[by];
}

} // namespace dtc
