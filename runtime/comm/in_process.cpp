#include "runtime/comm/in_process.h"

#include "runtime/comm/control_block.h"
#include "runtime/comm/peer_memory.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace dtc {

struct InProcessJob::State {
  explicit State(int size) : size(size) {
    uint64_t bytes = (ControlBlock::bytesFor(size) + 63) / 64 * 64;
    control = std::aligned_alloc(64, bytes);
    if (!control)
      throw std::bad_alloc();
    std::memset(control, 0, bytes);
  }
  ~State() { std::free(control); }

  int size;
  void *control;
};

InProcessJob::InProcessJob(int size) : state(std::make_shared<State>(size)) {}
InProcessJob::~InProcessJob() = default;

std::unique_ptr<Communicator> InProcessJob::join(int rank, Arena &arena) {
  // A thread of one's own process does not die alone: a rank only ever leaves.
  ControlBlock control(state->control, state->size, rank, [](int) { return true; });
  control.join({arena.bytes(), arena.sharedBegin(), arena.mappedBegin(), arena.mappedBytes(), arena.base()});
  try {
    control.awaitAll(std::chrono::minutes(1));
  } catch (const std::exception &error) {
    control.fail(rank, error.what());
    throw;
  }
  std::vector<std::byte *> bases;
  bases.reserve(state->size);
  for (int peer = 0; peer < state->size; ++peer)
    bases.push_back(control.arenaOf(peer).base);
  return std::make_unique<PeerMemory>(std::move(control), std::move(bases), state);
}

} // namespace dtc
