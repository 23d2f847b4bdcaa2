// A queue of work with a thread of its own: what the command form calls a stream other than 0.
#pragma once

#include "runtime/support/not_copied.h"

#include <cstdint>
#include <functional>
#include <memory>

namespace dtc {

/// Work runs in the order of enqueueing, one piece at a time. What the caller wrote before enqueue() is visible to the
/// work; what the work wrote is visible after wait(). One thread enqueues and waits.
class Stream : NotCopied {
public:
  /// `urgent`: of work that hardly computes and never spins, and for which others wait: its thread gets a processor
  /// before those that compute, as far as the system lets.
  explicit Stream(bool urgent = false);
  /// Waits for the work under way to end; work not yet begun is dropped.
  ~Stream();

  /// Returns the ticket to wait for. Without `wake`, the thread does nothing of what is queued before it is woken, by
  /// this or by a later piece of work.
  uint64_t enqueue(std::function<void()> work, bool wake = true);
  /// Wakes the thread. Any thread may call it.
  void wake();

  /// Returns when the work of that ticket is done, having done it itself where the thread has not come to it. When it,
  /// or any work before it, threw, throws the same.
  void wait(uint64_t ticket);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace dtc
