#include "runtime/device/stream.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace dtc {

struct Stream::State {
  using Lock = std::unique_lock<std::mutex>;

  void work();
  bool canRun() const { return !busy && !queue.empty(); }
  void runNext(Lock &lock);

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  uint64_t enqueued = 0, done = 0;
  std::exception_ptr failure; // of the first work that threw; nothing runs after it
  bool busy = false;          // a piece of work is being done, by whichever thread
  bool held = false;          // the thread does not touch the queue
  bool stopping = false;
  std::thread thread;
};

/// Does the first piece of work of the queue, without the lock.
void Stream::State::runNext(Lock &lock) {
  std::function<void()> next = std::move(queue.front());
  queue.pop_front();
  busy = true;
  lock.unlock();
  std::exception_ptr thrown;
  try {
    next();
  } catch (...) {
    thrown = std::current_exception();
  }
  lock.lock();
  busy = false;
  ++done;
  if (thrown) {
    failure = thrown;
    queue.clear();
    stopping = true;
  }
}

void Stream::State::work() {
  Lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return stopping || (canRun() && !held); });
    if (stopping)
      return;
    runNext(lock);
    changed.notify_all();
  }
}

Stream::Stream() : state(std::make_unique<State>()) {
  state->thread = std::thread([this] { state->work(); });
}

Stream::~Stream() {
  {
    std::lock_guard lock(state->mutex);
    state->stopping = true;
    state->changed.notify_all();
  }
  state->thread.join();
}

uint64_t Stream::enqueue(std::function<void()> work, bool wake) {
  std::lock_guard lock(state->mutex);
  state->queue.push_back(std::move(work));
  state->held = !wake;
  if (wake)
    state->changed.notify_all();
  return ++state->enqueued;
}

void Stream::wake() {
  std::lock_guard lock(state->mutex);
  state->held = false;
  state->changed.notify_all();
}

void Stream::wait(uint64_t ticket) {
  State::Lock lock(state->mutex);
  while (state->done < ticket && !state->failure) {
    if (!state->canRun()) {
      state->changed.wait(lock);
      continue;
    }
    // The thread has not woken up yet: what is short is done before it would have.
    state->runNext(lock);
    if (state->stopping || state->canRun())
      state->changed.notify_all();
  }
  if (state->failure)
    std::rethrow_exception(state->failure);
}

} // namespace dtc
