#include "runtime/device/stream.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

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
  std::exception_ptr failure; // from the first work that threw; nothing runs after it
  bool busy = false;          // some thread is running a piece of work
  bool held = false;          // the thread does not touch the queue
  bool stopping = false;
  bool urgent = false;
  std::thread thread;
};

/// Runs the first piece of work in the queue, without holding the lock.
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

/// Asks the system to run this thread as soon as it is ready, ahead of threads that compute: with short time slices
/// (Linux 6.12 and later) and a higher priority, which needs root, CAP_SYS_NICE or RLIMIT_NICE. If the system refuses,
/// we do without.
static void hurry() {
  struct {
    uint32_t size = sizeof(*this), policy = SCHED_OTHER;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime = 100'000, deadline = 0, period = 0; // nanoseconds
  } attributes;                                           // struct sched_attr, which glibc 2.36 lacks
  int nice = getpriority(PRIO_PROCESS, 0);
  for (int higher : {nice - 10, nice}) {
    attributes.nice = higher;
    if (syscall(SYS_sched_setattr, 0, &attributes, 0U) == 0)
      return;
  }
}

void Stream::State::work() {
  if (urgent)
    hurry();
  Lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return stopping || (canRun() && !held); });
    if (stopping)
      return;
    runNext(lock);
    changed.notify_all();
  }
}

Stream::Stream(bool urgent) : state(std::make_unique<State>()) {
  state->urgent = urgent;
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
    // The thread has not woken up yet; short work is done before it would have.
    state->runNext(lock);
    if (state->stopping || state->canRun())
      state->changed.notify_all();
  }
  if (state->failure)
    std::rethrow_exception(state->failure);
}

} // namespace dtc
