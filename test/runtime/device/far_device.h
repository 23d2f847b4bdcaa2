// A device without a CPU's conveniences: what works on it works where memory is on a card and kernels belong to a
// driver.
#pragma once

#include "runtime/device/cpu_device.h"
#include "runtime/device/stream.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <sys/mman.h>
#include <vector>

namespace dtc::test {

/// Addresses that nobody may access; the bytes are elsewhere.
class FarMemory final : public Memory {
public:
  FarMemory(uint64_t bytes, uint64_t sharedBegin) : Memory(bytes, sharedBegin), bytesBehind(bytes, sharedBegin) {
    void *address = mmap(nullptr, bytes + 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED)
      throw std::runtime_error("no addresses for a far memory");
    memory = static_cast<std::byte *>(address);
  }
  ~FarMemory() override { munmap(memory, size + 1); }

  /// For a transport of this device.
  Arena &behind() { return bytesBehind; }

private:
  Arena bytesBehind;
};

/// Nothing that it is given is done before somebody waits for it, and then only as much as is waited for: a reader that
/// does not wait gets the old contents, every time. Copies in parallel with launches are done together with what
/// follows the wait for them. Kernels are numbers.
class FarDevice final : public Device {
public:
  explicit FarDevice(KernelResolver resolve) : resolve(std::move(resolve)) {}

  std::unique_ptr<Memory> allocate(uint64_t bytes, uint64_t sharedBegin) override {
    auto memory = std::make_unique<FarMemory>(bytes, sharedBegin);
    std::lock_guard lock(mutex);
    ranges.push_back({memory->base(), memory->behind().base(), bytes});
    return memory;
  }

  std::unique_ptr<Memory> allocateHost(uint64_t bytes) override {
    auto memory = std::make_unique<Arena>(bytes, bytes);
    std::lock_guard lock(mutex);
    ranges.push_back({memory->base(), memory->base(), bytes});
    return memory;
  }

  Kernel load(const abi::Kernel &kernel) override {
    dtc_kernel_fn function = resolve(kernel);
    if (!function)
      return 0;
    functions.push_back(function);
    return functions.size();
  }

  void launch(Kernel kernel, std::span<void *const> buffers, std::span<const int64_t> scalars, int64_t grid,
              int64_t) override {
    enqueue([this, function = functions.at(kernel - 1), buffers, scalars, grid] {
      std::vector<void *> behind;
      for (void *buffer : buffers)
        behind.push_back(reach(static_cast<std::byte *>(buffer), 0));
      function(behind.data(), scalars.data(), 0, grid);
    });
  }
  void copy(std::byte *target, const std::byte *source, uint64_t bytes) override {
    enqueue([=, this] { std::memcpy(reach(target, bytes), reach(source, bytes), bytes); });
  }

  /// Its channel's stream waits for the work given before, and the work given after the wait waits for that stream:
  /// each only for earlier work, so they never form a cycle.
  CopyHandle startCopy(std::byte *target, const std::byte *source, uint64_t bytes, uint32_t channel) override {
    std::lock_guard lock(mutex);
    requireNotNoting();
    auto work = [=, this, before = given] {
      stream.wait(before);
      std::memcpy(reach(target, bytes), reach(source, bytes), bytes);
    };
    std::shared_ptr<Stream> &copies = channels[channel];
    if (!copies)
      copies = std::make_shared<Stream>();
    return {channel, copies->enqueue(work, /*wake=*/false)};
  }
  void awaitCopy(const CopyHandle &copy) override {
    {
      std::lock_guard lock(mutex);
      requireNotNoting();
    }
    enqueue([copies = channels.at(copy.channel), copy] { copies->wait(copy.ticket); });
  }
  void abandonCopies() noexcept override { channels.clear(); }

  void read(std::span<std::byte> host, const std::byte *address) override {
    wait(record());
    std::memcpy(host.data(), reach(address, host.size()), host.size());
  }
  void write(std::byte *address, std::span<const std::byte> host) override {
    wait(record());
    std::memcpy(reach(address, host.size()), host.data(), host.size());
  }

  bool beginSequence() override {
    noted.emplace_back();
    return isNoting = true;
  }
  Sequence endSequence() override {
    isNoting = false;
    return noted.size();
  }
  void give(Sequence sequence) override {
    for (const Work &work : noted[sequence - 1])
      enqueue(work);
  }

  Event record() override {
    std::lock_guard lock(mutex);
    return given;
  }
  void wait(Event event) override {
    std::lock_guard lock(mutex);
    stream.wait(event);
  }

private:
  struct Range {
    std::byte *address, *behind;
    uint64_t bytes;
  };

  using Work = std::function<void()>;

  void requireNotNoting() const {
    if (isNoting)
      throw std::logic_error("a copy beside launches in a sequence");
  }

  void enqueue(Work work) {
    std::lock_guard lock(mutex);
    if (isNoting)
      noted.back().push_back(std::move(work));
    else
      given = stream.enqueue(std::move(work), /*wake=*/false);
  }

  /// The bytes of an address. The newest memory first: addresses are reused.
  std::byte *reach(const std::byte *address, uint64_t bytes) const {
    for (size_t i = ranges.size(); i-- > 0;) {
      const Range &range = ranges[i];
      if (address >= range.address && address + bytes <= range.address + range.bytes)
        return range.behind + (address - range.address);
    }
    throw std::logic_error("an address that is not of this device");
  }

  KernelResolver resolve;
  std::vector<dtc_kernel_fn> functions;
  std::vector<Range> ranges;
  std::vector<std::vector<Work>> noted; // sequences
  bool isNoting = false;
  std::mutex mutex; // a stream has one user
  Event given = 0;
  std::map<uint32_t, std::shared_ptr<Stream>> channels; // of copies
  Stream stream;                                        // last: it ends before what its work uses
};

} // namespace dtc::test
