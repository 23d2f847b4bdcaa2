#include "runtime/device/cuda/timeline.h"

#include "runtime/support/now.h"

namespace dtc::cuda {

Timeline::~Timeline() {
  for (EventHandle event : events)
    gpu.driver.eventDestroy(event);
}

EventHandle Timeline::next() {
  if (used == events.size()) {
    EventHandle event = nullptr;
    gpu.driver.check(gpu.driver.eventCreate(&event, EventWithTime), "cannot make an event");
    events.push_back(event);
  }
  return events[used++];
}

/// The first event happened before `origin`, by at most the time it took to record it and wait for it. If another
/// thread got the processor in between, that is long; then the event is recorded again, a few times.
void Timeline::begin(StreamHandle stream) {
  constexpr int64_t ShortEnough = 100'000, MostTries = 10; // nanoseconds; a GPU takes a tenth of that
  gpu.driver.check(gpu.driver.streamSynchronize(stream), "cannot wait for a stream");
  EventHandle first = next();
  int64_t before = 0;
  for (int i = 0; i < MostTries && (i == 0 || origin - before > ShortEnough); ++i) {
    before = now();
    gpu.driver.check(gpu.driver.eventRecord(first, stream), "cannot record an event");
    gpu.await(first);
    origin = now();
  }
}

size_t Timeline::mark(StreamHandle stream) {
  gpu.makeCurrent();
  if (used == 0) // with no work before it, the event happens when it is recorded
    begin(stream);
  gpu.driver.check(gpu.driver.eventRecord(next(), stream), "cannot record an event");
  return used - 2;
}

std::vector<int64_t> Timeline::take() {
  std::vector<int64_t> moments;
  gpu.makeCurrent();
  for (size_t i = 1; i < used; ++i) {
    float milliseconds = 0;
    gpu.await(events[i]);
    gpu.driver.check(gpu.driver.eventElapsedTime(&milliseconds, events.front(), events[i]), "cannot tell times");
    moments.push_back(origin + static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6));
  }
  used = 0;
  return moments;
}

} // namespace dtc::cuda
