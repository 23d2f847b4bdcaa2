// What a rank computes on. The executor knows this interface and no device.
//
// A device does what it is given, launches and copies, in order; the caller may be ahead of it. An event says how far.
// Its memory is its own: the host reads and writes it through the device alone, and never through an address.
//
// Copies may also run beside the rest, as those do that move what is not needed for a while to the host and back. They
// have channels of their own: on each they are done one after the other, on different ones side by side.
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

/// A device refuses a launch, or failed at one. Whoever knows which command that was may say so.
class DeviceError : public Error {
public:
  using Error::Error;
};

/// Figures of a device that is not the host itself.
struct DeviceFigures {
  double peakFlops = 0;     ///< of products a second, in the type that was asked for; 0: not known
  uint64_t memoryBytes = 0; ///< that this process has of its memory
  double waitedSeconds = 0; ///< that the host has waited for it
};

class Device {
public:
  /// A point in what was given to a device.
  using Event = uint64_t;
  /// A kernel's code, as the device calls it: an address, a driver's handle. 0: none.
  using Kernel = uintptr_t;

  /// Whoever looks at much memory does so in pieces of at most so many bytes, to need no second memory for it.
  static constexpr uint64_t PieceBytes = 1 << 20;

  virtual ~Device() = default;

  /// Memory for launches and copies, zero. [sharedBegin, bytes) can be shown to peers by a transport. Throws as Arena.
  virtual std::unique_ptr<Memory> allocate(uint64_t bytes, uint64_t sharedBegin) = 0;

  /// Memory of the host, zero, which copies reach, of the kind that the device copies from and to by itself: the host
  /// reads and writes it by its addresses, when the device is done with it. None of it is seen by peers. Throws Error
  /// (Runtime) when the system refuses it.
  virtual std::unique_ptr<Memory> allocateHost(uint64_t bytes) = 0;

  /// Makes a kernel of the program ready to be launched; 0 when its code is nowhere.
  virtual Kernel load(const abi::Kernel &kernel) = 0;

  /// Runs `kernel` over [0, grid), in parts that begin at multiples of `grain`. Buffers and scalars stay until it is
  /// done. Throws DeviceError.
  virtual void launch(Kernel kernel, std::span<void *const> buffers, std::span<const int64_t> scalars, int64_t grid,
                      int64_t grain) = 0;

  /// Whether it can find the size of a grid in its memory when a launch's turn comes.
  virtual bool readsGrids() const { return false; }
  /// As launch, of which only the indices [0, n) run: n is the i32 at `count`, as what was given before leaves it. Of
  /// devices that read grids. Throws DeviceError where n is not in [0, grid].
  virtual void launchCounted(Kernel, std::span<void *const> /*buffers*/, std::span<const int64_t> /*scalars*/,
                             int64_t /*grid*/, int64_t /*grain*/, const std::byte * /*count*/) {
    throw DeviceError(ExitCode::Internal, "the device cannot read how much of a grid is to run");
  }

  /// Copies between addresses of its memory, the host's from allocateHost() among it, which do not overlap.
  virtual void copy(std::byte *target, const std::byte *source, uint64_t bytes) = 0;

  /// A copy beside the rest. Waited for once.
  struct CopyHandle {
    uint32_t channel = 0;
    uint64_t ticket = 0;
  };
  /// Begins such a copy: it comes behind all that has been given so far and behind what was started on its channel.
  /// Until it has been waited for its target may not be touched, and its source not be written. Throws DeviceError.
  virtual CopyHandle startCopy(std::byte *target, const std::byte *source, uint64_t bytes, uint32_t channel) = 0;
  /// What is given from here on comes behind this copy. Throws DeviceError where it failed.
  virtual void awaitCopy(const CopyHandle &copy) = 0;
  /// Nobody will wait for what copies are under way. The memory that they work in may be given back after this.
  virtual void abandonCopies() noexcept {}

  /// Launches and copies that are given again and again, as one. 0: none.
  using Sequence = uint64_t;

  /// From here on launches and copies are noted and not done, until endSequence(); nothing else may be asked of the
  /// device before that, copies beside them included. Their buffers and scalars stay. False: this device does not note
  /// them, and nothing has changed.
  virtual bool beginSequence() { return false; }
  virtual Sequence endSequence() { return 0; }
  /// Gives all that was noted. Throws DeviceError.
  virtual void give(Sequence) {}

  /// Copy between its memory and the host's, after all that has been given so far; complete on return. Several threads
  /// may do so at once while nothing else is given.
  virtual void read(std::span<std::byte> host, const std::byte *address) = 0;
  virtual void write(std::byte *address, std::span<const std::byte> host) = 0;

  /// Marks the moment between what was given before and what will be after, for takeMoments(); its number among those.
  virtual size_t mark() {
    moments.push_back(std::chrono::steady_clock::now().time_since_epoch().count());
    return moments.size() - 1;
  }
  /// Likewise between the copies that were started on a channel before and those that will be.
  virtual size_t markCopies(uint32_t /*channel*/) { return mark(); }
  /// When the marked moments were, in nanoseconds of the steady clock, and forgets them. Returns when they are over.
  virtual std::vector<int64_t> takeMoments() {
    std::deque<int64_t> taken = std::exchange(moments, {});
    return {taken.begin(), taken.end()};
  }

  /// Nothing where the device is the host. `sixteenBits`: of products of 16-bit elements, else of f32.
  virtual std::optional<DeviceFigures> figures(bool /*sixteenBits*/) const { return std::nullopt; }

  /// What it has decided since it was last asked, for people to read.
  virtual std::vector<std::string> takeNotes() { return {}; }

  /// All that has been given so far.
  virtual Event record() = 0;
  /// Returns when that is done: peers see its results. Throws DeviceError where it failed.
  virtual void wait(Event event) = 0;

protected:
  std::deque<int64_t> moments; ///< which stay where they are as others are marked
};

} // namespace dtc
