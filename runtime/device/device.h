// What a rank computes on. The executor knows only this interface, no concrete device.
//
// A device runs launches and copies in the order in which they are given; the caller may run ahead of it. Events show
// how far the device is. A device's memory is its own: the host reads and writes it only through the device, never
// through an address.
//
// Copies may also overlap the other work, for example to move data that is not needed for a while to the host and back.
// They have their own channels: copies on one channel run one after the other, copies on different channels
// concurrently.
#pragma once

#include "runtime/device/memory.h"
#include "runtime/support/error.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dtc {

namespace abi {
class Kernel;
}

/// A device refused a launch or failed in one. A caller that knows which command it was may add that.
class DeviceError : public Error {
public:
  using Error::Error;
};

/// Figures of a device other than the host itself.
struct DeviceFigures {
  double peakFlops = 0;     ///< per second, of products in the requested type; 0: not known
  uint64_t memoryBytes = 0; ///< device memory that this process has
  double waitedSeconds = 0; ///< time that the host has waited for it
};

class Device {
public:
  /// A point in the work given to a device.
  using Event = uint64_t;
  /// The device's handle of a kernel's code: an address or a driver's handle. 0: none.
  using Kernel = uintptr_t;

  /// Code that reads much memory does so in pieces of at most this many bytes, to avoid a second copy of it all.
  static constexpr uint64_t PieceBytes = 1 << 20;

  virtual ~Device() = default;

  /// Memory for launches and copies, zero. [sharedBegin, bytes) can be shown to peers by a transport. Throws like
  /// Arena.
  virtual std::unique_ptr<Memory> allocate(uint64_t bytes, uint64_t sharedBegin) = 0;

  /// Zeroed host memory for copies, of a kind that the device accesses directly. The host reads and writes it by
  /// address when the device is done with it. Peers do not see it. Throws Error (Runtime) when the system refuses it.
  virtual std::unique_ptr<Memory> allocateHost(uint64_t bytes) = 0;

  /// Makes a kernel of the program ready to be launched; 0 if its code is missing.
  virtual Kernel load(const abi::Kernel &kernel) = 0;

  /// Runs `kernel` over [0, grid), in parts that begin at multiples of `grain`. Buffers and scalars stay valid until it
  /// is done. Throws DeviceError.
  virtual void launch(Kernel kernel, std::span<void *const> buffers, std::span<const int64_t> scalars, int64_t grid,
                      int64_t grain) = 0;

  /// Whether it can read the size of a grid from its memory when a launch runs.
  virtual bool readsGrids() const { return false; }
  /// Like launch, but runs only the indices [0, n): n is the i32 at `count` after all work given before. Only for
  /// devices that read grids. Throws DeviceError if n is not in [0, grid].
  virtual void launchCounted(Kernel, std::span<void *const> /*buffers*/, std::span<const int64_t> /*scalars*/,
                             int64_t /*grid*/, int64_t /*grain*/, const std::byte * /*count*/) {
    throw DeviceError(ExitCode::Internal, "the device cannot read how much of a grid is to run");
  }

  /// Copies between non-overlapping ranges of its memory, including host memory from allocateHost().
  virtual void copy(std::byte *target, const std::byte *source, uint64_t bytes) = 0;

  /// An asynchronous copy. Wait for it once.
  struct CopyHandle {
    uint32_t channel = 0;
    uint64_t ticket = 0;
  };
  /// Starts an asynchronous copy: it runs after all work given so far and after earlier copies on its channel. Until
  /// its wait, its target must not be accessed and its source not be written. Throws DeviceError.
  virtual CopyHandle startCopy(std::byte *target, const std::byte *source, uint64_t bytes, uint32_t channel) = 0;
  /// Orders all work given from now on after this copy. Throws DeviceError if it failed.
  virtual void awaitCopy(const CopyHandle &copy) = 0;
  /// Gives up on copies in progress: nobody will wait for them. After this call their memory may be freed.
  virtual void abandonCopies() noexcept {}

  /// Recorded launches and copies that are given repeatedly as one unit. 0: none.
  using Sequence = uint64_t;

  /// From now until endSequence(), launches and copies are recorded and not run. Nothing else may be asked of the
  /// device in between, including asynchronous copies. Buffers and scalars must stay valid. False: this device cannot
  /// record, and nothing has changed.
  virtual bool beginSequence() { return false; }
  virtual Sequence endSequence() { return 0; }
  /// Runs everything that was recorded. Throws DeviceError.
  virtual void give(Sequence) {}

  /// Copy between its memory and the host's, after all work given so far; complete on return. Several threads may do so
  /// at once while no other work is given.
  virtual void read(std::span<std::byte> host, const std::byte *address) = 0;
  virtual void write(std::byte *address, std::span<const std::byte> host) = 0;

  /// Marks the moment between work given before and work given after, for takeMoments(); returns its number among
  /// those.
  virtual size_t mark() {
    moments.push_back(std::chrono::steady_clock::now().time_since_epoch().count());
    return moments.size() - 1;
  }
  /// Likewise between copies started on a channel before and after this call.
  virtual size_t markCopies(uint32_t /*channel*/) { return mark(); }
  /// The times of the marked moments, in nanoseconds of the steady clock. Waits until all have passed, and then forgets
  /// them.
  virtual std::vector<int64_t> takeMoments() {
    std::deque<int64_t> taken = std::exchange(moments, {});
    return {taken.begin(), taken.end()};
  }

  /// Nullopt if the device is the host. `sixteenBits`: the peak for products of 16-bit elements, else of f32.
  virtual std::optional<DeviceFigures> figures(bool /*sixteenBits*/) const { return std::nullopt; }

  /// Messages for people about decisions since the last call.
  virtual std::vector<std::string> takeNotes() { return {}; }

  /// The point after all work given so far.
  virtual Event record() = 0;
  /// Returns when all work up to `event` is done and peers see its results. Throws DeviceError if it failed.
  virtual void wait(Event event) = 0;

protected:
  std::deque<int64_t> moments; ///< a deque, so that moments keep their addresses as others are marked
};

} // namespace dtc
