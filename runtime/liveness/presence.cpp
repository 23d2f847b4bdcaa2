#include "runtime/liveness/presence.h"

#include "runtime/liveness/doorbells.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <string>
#include <thread>

namespace dtc {

void Presence::join(const ArenaNotice &notice) {
  memory.state(ownRank).arena = notice;
  memory.state(ownRank).phase.store(ControlMemory::Joined);
}

void Presence::awaitAll(std::chrono::milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  auto deadline = Clock::now() + timeout;
  auto isMissing = [&](int rank) { return !hasJoined(rank) || hasResigned(rank); };
  // When very many ranks wait, they must leave the cores to ranks that are still joining.
  const std::chrono::microseconds longest(2000 + 100 * memory.ranks());
  auto nextLook = Clock::now() + LivenessInterval;
  for (int rank = 0; rank < memory.ranks(); ++rank) {
    for (auto pause = std::chrono::microseconds(20); isMissing(rank); pause = std::min(pause * 2, longest)) {
      failures.throwIfFailed();
      if (Clock::now() > deadline)
        throw Error("rank " + std::to_string(nameOf(rank)) +
                    (names.empty() ? " of " + std::to_string(memory.ranks()) : " of this host") +
                    " did not start within " + std::to_string(timeout.count() / 1000) + " s");
      if (Clock::now() > nextLook) {
        lookAtNext();
        nextLook = Clock::now() + LivenessInterval;
      }
      std::this_thread::sleep_for(pause);
    }
  }
}

/// A rank that has joined may die before the last one joins. Each waiting rank checks only one other at a time: a check
/// takes time proportional to the number of ranks, so if all checked all, 256 ranks would do nothing else.
void Presence::lookAtNext() {
  for (int step = 1; step < memory.ranks(); ++step) {
    int next = (ownRank + step) % memory.ranks();
    if (!isPresent(next))
      continue;
    if (!isAlive(next))
      failures.record(nameOf(next), "its process ended while the job was starting");
    return;
  }
}

void Presence::leave() noexcept {
  memory.state(ownRank).phase.store(ControlMemory::Left);
  Doorbells(memory).ringAll();
}

void Presence::resign() noexcept { memory.state(ownRank).phase.store(ControlMemory::Resigned); }

void Presence::checkPeers() {
  for (int peer = 0; peer < memory.ranks(); ++peer)
    if (peer != ownRank && isPresent(peer) && !isAlive(peer))
      failures.record(nameOf(peer), "its process died");
  failures.throwIfFailed();
}

} // namespace dtc
