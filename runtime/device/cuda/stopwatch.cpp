#include "runtime/device/cuda/stopwatch.h"

#include <algorithm>
#include <limits>

namespace dtc::cuda {

Stopwatch::Stopwatch(const Driver &driver, StreamHandle stream) : driver(driver), stream(stream) {
  int result = driver.eventCreate(&begin, EventWithTime);
  if (result == Success)
    result = driver.eventCreate(&end, EventWithTime);
  if (result != Success)
    destroy();
  driver.check(result, "cannot make an event");
}

Stopwatch::~Stopwatch() { destroy(); }

void Stopwatch::destroy() noexcept {
  for (EventHandle event : {begin, end})
    if (event)
      driver.eventDestroy(event);
}

float Stopwatch::least(const std::function<void()> &give) const {
  constexpr int Times = 4;
  float least = std::numeric_limits<float>::infinity();
  give(); // loads whatever is loaded at a first launch
  for (int i = 0; i < Times; ++i) {
    driver.check(driver.eventRecord(begin, stream), "cannot record an event");
    give();
    driver.check(driver.eventRecord(end, stream), "cannot record an event");
    driver.check(driver.eventSynchronize(end), "cannot wait for what is timed");
    float milliseconds = 0;
    driver.check(driver.eventElapsedTime(&milliseconds, begin, end), "cannot tell times");
    least = std::min(least, milliseconds);
  }
  return least;
}

} // namespace dtc::cuda
