// The CPU as a device: a few threads that share each kernel's grid.
#pragma once

#include "runtime/abi/kernel.h"

#include <cstdint>
#include <memory>

namespace dtc {

/// Runs kernels one after the other, each by all threads. A grid is cut at multiples of its grain into one contiguous
/// part per thread; since a kernel's result does not depend on how its grid is cut, neither does ours on the threads.
class CpuDevice {
public:
  /// The calling thread is one of `threads` (at least 1): 1 starts none and runs kernels inline.
  explicit CpuDevice(int threads);
  ~CpuDevice();
  CpuDevice(const CpuDevice &) = delete;
  CpuDevice &operator=(const CpuDevice &) = delete;

  int threads() const { return threadCount; }

  /// Runs `kernel` over [0, grid) and returns when it is done.
  void launch(dtc_kernel_fn kernel, void *const *buffers, const int64_t *scalars, int64_t grid, int64_t grain) {
    if (threadCount == 1 || grid <= grain)
      return kernel(buffers, scalars, 0, grid);
    launchParallel(kernel, buffers, scalars, grid, grain);
  }

private:
  struct Pool;
  void launchParallel(dtc_kernel_fn kernel, void *const *buffers, const int64_t *scalars, int64_t grid, int64_t grain);

  int threadCount;
  std::unique_ptr<Pool> pool;
};

} // namespace dtc
