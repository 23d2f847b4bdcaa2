#include "runtime/comm/local/in_process.h"

#include "runtime/liveness/control_block.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace dtc {

struct InProcessJob::State {
  State(int size, std::vector<int> names) : size(size), names(std::move(names)) {
    uint64_t bytes = (ControlBlock::bytesFor(size) + 63) / 64 * 64;
    control = std::aligned_alloc(64, bytes);
    if (!control)
      throw std::bad_alloc();
    std::memset(control, 0, bytes);
    if (!this->names.empty()) {
      stages = std::aligned_alloc(4096, size * SharedArenas::StagesBytes);
      if (!stages)
        throw std::bad_alloc();
    }
  }
  ~State() {
    std::free(control);
    std::free(stages);
  }

  int size;
  std::vector<int> names;
  void *control;
  void *stages = nullptr;
};

InProcessJob::InProcessJob(int size, std::vector<int> names) : state(std::make_shared<State>(size, std::move(names))) {}
InProcessJob::~InProcessJob() = default;

SharedArenas InProcessJob::joinArenas(int rank, Arena &arena) {
  // A thread cannot die without its process, so a rank can only leave.
  ControlBlock control(state->control, state->size, rank, [](int) { return true; }, state->names);
  control.join({arena.bytes(), arena.sharedBegin(), arena.mappedBegin(), arena.mappedBytes(), arena.base()});
  try {
    control.awaitAll(std::chrono::minutes(1));
  } catch (const std::exception &error) {
    control.fail(control.nameOf(rank), error.what());
    throw;
  }
  std::vector<std::byte *> bases;
  bases.reserve(state->size);
  for (int peer = 0; peer < state->size; ++peer)
    bases.push_back(control.arenaOf(peer).base);
  std::vector<std::byte *> stages;
  for (int peer = 0; state->stages && peer < state->size; ++peer)
    stages.push_back(static_cast<std::byte *>(state->stages) + peer * SharedArenas::StagesBytes);
  return {std::move(control), std::move(bases), state, std::move(stages)};
}

std::unique_ptr<Communicator> InProcessJob::join(int rank, Arena &arena) {
  return std::make_unique<PeerMemory>(joinArenas(rank, arena));
}

} // namespace dtc
