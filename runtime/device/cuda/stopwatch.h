// How long a stream takes for what it is given.
#pragma once

#include "runtime/device/cuda/driver.h"
#include "runtime/support/not_copied.h"

#include <functional>

namespace dtc::cuda {

class Stopwatch : NotCopied {
public:
  /// Of a stream that is not captured. Throws Error where the driver has no events.
  Stopwatch(const Driver &driver, StreamHandle stream);
  ~Stopwatch();

  /// The least milliseconds of a few times what `give` gives to the stream, after one that does not count. Waits.
  float least(const std::function<void()> &give) const;

private:
  void destroy() noexcept;

  const Driver &driver;
  StreamHandle stream;
  EventHandle begin = nullptr, end = nullptr;
};

} // namespace dtc::cuda
