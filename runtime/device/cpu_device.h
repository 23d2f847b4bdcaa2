// The CPU as a device: a few threads that share each kernel's grid.
#pragma once

#include "runtime/device/device.h"

namespace dtc {

/// Runs kernels one after the other, each by all threads. A grid is cut at multiples of its grain into one contiguous
/// part per thread; since a kernel's result does not depend on how its grid is cut, neither does ours on the threads.
///
/// The calling thread takes part, so everything is done when it has been given.
class CpuDevice final : public Device {
public:
  /// The calling thread is one of `threads` (at least 1): 1 starts none and runs kernels inline.
  explicit CpuDevice(int threads);
  ~CpuDevice() override;
  CpuDevice(const CpuDevice &) = delete;
  CpuDevice &operator=(const CpuDevice &) = delete;

  int threads() const { return threadCount; }

  std::unique_ptr<Arena> allocate(uint64_t bytes, uint64_t sharedBegin) override {
    return std::make_unique<Arena>(bytes, sharedBegin);
  }
  void launch(dtc_kernel_fn kernel, void *const *buffers, const int64_t *scalars, int64_t grid,
              int64_t grain) override {
    if (threadCount == 1 || grid <= grain)
      return kernel(buffers, scalars, 0, grid);
    launchParallel(kernel, buffers, scalars, grid, grain);
  }
  void copy(std::byte *target, const std::byte *source, uint64_t bytes) override;
  Event record() override { return 0; }
  void wait(Event) override {}

private:
  struct Pool;
  void launchParallel(dtc_kernel_fn kernel, void *const *buffers, const int64_t *scalars, int64_t grid, int64_t grain);

  int threadCount;
  std::unique_ptr<Pool> pool;
};

} // namespace dtc
