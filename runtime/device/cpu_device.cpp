#include "runtime/device/cpu_device.h"

#include "runtime/support/error.h"
#include "runtime/support/limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace dtc {

/// Waits until `word` differs from `value`: spins while a thread may be about to change it, then sleeps.
static void awaitChange(const std::atomic<uint32_t> &word, uint32_t value) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
  while (word.load(std::memory_order_acquire) == value) {
    if (std::chrono::steady_clock::now() > deadline) {
      word.wait(value, std::memory_order_acquire);
      return;
    }
    __builtin_ia32_pause();
  }
}

struct CpuDevice::Pool {
  struct Job {
    dtc_kernel_fn kernel = nullptr;
    void *const *buffers;
    const int64_t *scalars;
    int64_t grid, part; // each thread does one part of the grid; the last ones may have none

    void run(int64_t thread) const {
      int64_t begin = std::min(grid, thread * part), end = std::min(grid, begin + part);
      if (begin < end)
        kernel(buffers, scalars, begin, end);
    }
  };

  explicit Pool(int workers) {
    try {
      for (int worker = 1; worker <= workers; ++worker)
        threads.emplace_back([this, worker] { work(worker); });
    } catch (const std::system_error &error) {
      stop();
      throw Error("cannot start thread " + std::to_string(threads.size() + 2) + " of " + std::to_string(workers + 1) +
                  ": " + error.code().message() +
                  "; each takes 8 MiB of addresses (ulimit -s, -v) and counts as a process (ulimit -u): raise the "
                  "limit, or give fewer --threads");
    }
  }
  ~Pool() { stop(); }

  void stop() {
    job.kernel = nullptr;
    announce();
    for (std::thread &thread : threads)
      thread.join();
  }

  void announce() {
    generation.fetch_add(1, std::memory_order_release);
    generation.notify_all();
  }

  void work(int worker) {
    for (uint32_t seen = 0;; ++seen) {
      awaitChange(generation, seen);
      if (!job.kernel)
        return;
      job.run(worker);
      if (busy.fetch_sub(1, std::memory_order_acq_rel) == 1)
        busy.notify_one();
    }
  }

  void run(const Job &next) {
    job = next;
    busy.store(static_cast<uint32_t>(threads.size()), std::memory_order_relaxed);
    announce();
    job.run(0);
    for (uint32_t left; (left = busy.load(std::memory_order_acquire)) != 0;)
      awaitChange(busy, left);
  }

  Job job; // written only while no worker is busy
  std::atomic<uint32_t> generation{0}, busy{0};
  std::vector<std::thread> threads;
};

CpuDevice::CpuDevice(int threads, KernelResolver resolve)
    : threadCount(std::max(threads, 1)), resolve(std::move(resolve)) {
  if (threadCount > 1)
    pool = std::make_unique<Pool>(threadCount - 1);
}

CpuDevice::~CpuDevice() = default;

void CpuDevice::launchCounted(Kernel kernel, std::span<void *const> buffers, std::span<const int64_t> scalars,
                              int64_t grid, int64_t grain, const std::byte *count) {
  int32_t counted;
  std::memcpy(&counted, count, sizeof(counted));
  if (counted < 0 || counted > grid)
    throw DeviceError("the count of its grid says " + std::to_string(counted) + ", and the grid is " +
                      std::to_string(grid) + ": a count lies between 0 and that; look at what computes it");
  if (counted > 0)
    launch(kernel, buffers, scalars, counted, grain);
}

void CpuDevice::copy(std::byte *target, const std::byte *source, uint64_t bytes) { std::memcpy(target, source, bytes); }

Stream &CpuDevice::streamOf(uint32_t channel) {
  try {
    return streams.try_emplace(channel).first->second;
  } catch (const std::system_error &error) {
    throw DeviceError("cannot start the thread for copies on channel " + std::to_string(channel) + ": " +
                      wordsOf(error));
  }
}

Device::CopyHandle CpuDevice::startCopy(std::byte *target, const std::byte *source, uint64_t bytes, uint32_t channel) {
  return {channel, streamOf(channel).enqueue([=] { std::memcpy(target, source, bytes); })};
}

void CpuDevice::abandonCopies() noexcept {
  streams.clear();
  marked.clear();
}

size_t CpuDevice::markCopies(uint32_t channel) {
  size_t number = mark();
  marked[channel] = streamOf(channel).enqueue(
      [&moment = moments[number]] { moment = std::chrono::steady_clock::now().time_since_epoch().count(); });
  return number;
}

std::vector<int64_t> CpuDevice::takeMoments() {
  for (auto [channel, ticket] : std::exchange(marked, {}))
    streamOf(channel).wait(ticket);
  return Device::takeMoments();
}

void CpuDevice::read(std::span<std::byte> host, const std::byte *address) {
  std::memcpy(host.data(), address, host.size());
}

void CpuDevice::write(std::byte *address, std::span<const std::byte> host) {
  std::memcpy(address, host.data(), host.size());
}

void CpuDevice::launchParallel(dtc_kernel_fn kernel, void *const *buffers, const int64_t *scalars, int64_t grid,
                               int64_t grain) {
  int64_t grains = (grid + grain - 1) / grain;
  int64_t part = (grains + threadCount - 1) / threadCount * grain;
  pool->run({kernel, buffers, scalars, grid, part});
}

} // namespace dtc
