// The GPU that a measurement runs on.
#pragma once

#include <cstdint>
#include <string>

namespace dtc {

struct FoundGpu {
  std::string model;        ///< as the driver calls it
  std::string target;       ///< for `dtc compile`: the newest that the GPU runs
  uint64_t memoryBytes = 0; ///< the GPU's own
};

/// The first one that CUDA_VISIBLE_DEVICES shows. Throws Error (Runtime) where there is no driver, no GPU, or one that
/// is older than all targets.
FoundGpu findGpu();

} // namespace dtc
