#include "runtime/device/stream.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace dtc {

struct Stream::State {
  void work();

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  uint64_t enqueued = 0, done = 0;
  std::exception_ptr failure; // of the first work that threw; nothing runs after it
  bool stopping = false;
  std::thread thread;
};

void Stream::State::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return stopping || !queue.empty(); });
    if (stopping)
      return;
    std::function<void()> next = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    std::exception_ptr thrown;
    try {
      next();
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    ++done;
    if (thrown) {
      failure = thrown;
      queue.clear();
      stopping = true;
    }
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

uint64_t Stream::enqueue(std::function<void()> work) {
  std::lock_guard lock(state->mutex);
  state->queue.push_back(std::move(work));
  state->changed.notify_all();
  return ++state->enqueued;
}

void Stream::wait(uint64_t ticket) {
  std::unique_lock lock(state->mutex);
  state->changed.wait(lock, [&] { return state->done >= ticket || state->failure; });
  if (state->failure)
    std::rethrow_exception(state->failure);
}

} // namespace dtc
