// A queue of work with its own thread: what command lists call a stream other than 0.
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
  /// `urgent`: for work that hardly computes, never spins, and that others wait for. Its thread gets a processor before
  /// threads that compute, as far as the system allows.
  explicit Stream(bool urgent = false);
  /// Waits for running work to end; work not yet begun is dropped.
  ~Stream();

  /// Returns the ticket to wait for. Without `wake`, the thread does not start queued work until something wakes it:
  /// wake() or a later piece of work.
  uint64_t enqueue(std::function<void()> work, bool wake = true);
  /// Wakes the thread. Any thread may call it.
  void wake();

  /// Returns when the work of that ticket is done, and runs it itself if the thread has not begun it. If that work or
  /// any before it threw, throws the same.
  void wait(uint64_t ticket);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace dtc
