#include "runtime/device/cuda/timeline.h"

#include <chrono>

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

size_t Timeline::mark(StreamHandle stream) {
  gpu.makeCurrent();
  if (used == 0) { // with nothing before it the event comes as it is recorded
    gpu.driver.check(gpu.driver.streamSynchronize(stream), "cannot wait for a stream");
    gpu.driver.check(gpu.driver.eventRecord(next(), stream), "cannot record an event");
    gpu.await(events.front());
    origin = std::chrono::steady_clock::now().time_since_epoch().count();
  }
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
