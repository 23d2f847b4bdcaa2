// Measures how long a stream takes for its work.
#pragma once

#include "runtime/device/cuda/driver.h"
#include "runtime/support/not_copied.h"

#include <functional>

namespace dtc::cuda {

class Stopwatch : NotCopied {
public:
  /// For a stream that is not being captured. Throws Error if the driver cannot create events.
  Stopwatch(const Driver &driver, StreamHandle stream);
  ~Stopwatch();

  /// The least time in milliseconds over a few runs of what `give` enqueues, after one warm-up run. Waits.
  float least(const std::function<void()> &give) const;

private:
  void destroy() noexcept;

  const Driver &driver;
  StreamHandle stream;
  EventHandle begin = nullptr, end = nullptr;
};

} // namespace dtc::cuda
