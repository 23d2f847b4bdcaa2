// When a GPU reached points in its work: events with times, mapped to the host's clock.
#pragma once

#include "runtime/device/cuda/gpu.h"
#include "runtime/support/not_copied.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtc::cuda {

class Timeline : NotCopied {
public:
  explicit Timeline(const Gpu &gpu) : gpu(gpu) {}
  ~Timeline();

  /// See Device::mark(); on any stream. The first call after take() waits for that stream's work.
  size_t mark(StreamHandle stream);
  /// See Device::takeMoments(). All of them are late by the same amount, at most the duration of the first mark().
  std::vector<int64_t> take();

private:
  EventHandle next();
  void begin(StreamHandle stream);

  const Gpu &gpu;
  std::vector<EventHandle> events; ///< the time of the first one is known
  size_t used = 0;
  int64_t origin = 0; ///< of the first event, on the host's clock
};

} // namespace dtc::cuda
