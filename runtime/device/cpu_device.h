// The CPU as a device: a few threads that share each kernel's grid.
#pragma once

#include "runtime/abi/kernel.h"
#include "runtime/device/arena.h"
#include "runtime/device/device.h"
#include "runtime/device/stream.h"

#include <functional>
#include <map>

namespace dtc {

/// Finds a kernel's code; null if there is none.
using KernelResolver = std::function<dtc_kernel_fn(const abi::Kernel &)>;

/// Runs kernels one after the other, each on all threads. A grid is split at multiples of its grain into one contiguous
/// part per thread. A kernel's result does not depend on the split, so it does not depend on the number of threads.
///
/// The calling thread takes part, so every call completes its work before it returns. The exception is asynchronous
/// copies: each of their channels gets a thread at its first copy. A thread that waits for a copy that has not begun
/// does the copy itself.
class CpuDevice final : public Device {
public:
  /// The calling thread is one of `threads` (at least 1): 1 starts none and runs kernels inline. Without `resolve`
  /// there are no kernels.
  explicit CpuDevice(int threads, KernelResolver resolve = nullptr);
  ~CpuDevice() override;
  CpuDevice(const CpuDevice &) = delete;
  CpuDevice &operator=(const CpuDevice &) = delete;

  int threads() const { return threadCount; }

  std::unique_ptr<Memory> allocate(uint64_t bytes, uint64_t sharedBegin) override {
    return std::make_unique<Arena>(bytes, sharedBegin);
  }
  std::unique_ptr<Memory> allocateHost(uint64_t bytes) override { return std::make_unique<Arena>(bytes, bytes); }
  Kernel load(const abi::Kernel &kernel) override { return resolve ? reinterpret_cast<Kernel>(resolve(kernel)) : 0; }
  void launch(Kernel kernel, std::span<void *const> buffers, std::span<const int64_t> scalars, int64_t grid,
              int64_t grain) override {
    auto function = reinterpret_cast<dtc_kernel_fn>(kernel);
    if (threadCount == 1 || grid <= grain)
      return function(buffers.data(), scalars.data(), 0, grid);
    launchParallel(function, buffers.data(), scalars.data(), grid, grain);
  }
  bool readsGrids() const override { return true; }
  void launchCounted(Kernel kernel, std::span<void *const> buffers, std::span<const int64_t> scalars, int64_t grid,
                     int64_t grain, const std::byte *count) override;
  void copy(std::byte *target, const std::byte *source, uint64_t bytes) override;
  CopyHandle startCopy(std::byte *target, const std::byte *source, uint64_t bytes, uint32_t channel) override;
  void awaitCopy(const CopyHandle &copy) override { streamOf(copy.channel).wait(copy.ticket); }
  /// Waits for the copies that have begun.
  void abandonCopies() noexcept override;
  void read(std::span<std::byte> host, const std::byte *address) override;
  void write(std::byte *address, std::span<const std::byte> host) override;
  size_t markCopies(uint32_t channel) override;
  std::vector<int64_t> takeMoments() override;
  Event record() override { return 0; }
  void wait(Event) override {}

private:
  struct Pool;
  void launchParallel(dtc_kernel_fn kernel, void *const *buffers, const int64_t *scalars, int64_t grid, int64_t grain);
  Stream &streamOf(uint32_t channel);

  int threadCount;
  KernelResolver resolve;
  std::unique_ptr<Pool> pool;
  std::map<uint32_t, uint64_t> marked; ///< by channel: the ticket of the last mark
  std::map<uint32_t, Stream> streams;  ///< by channel
};

} // namespace dtc
