// An NVIDIA GPU as a device: one stream, on which launches and copies stand in order, others for copies beside them,
// and memory that the host reaches through pinned buffers alone.
#pragma once

#include "runtime/device/cuda/gpu.h"
#include "runtime/device/cuda/library_kernels.h"
#include "runtime/device/cuda/side_copies.h"
#include "runtime/device/cuda/staging.h"
#include "runtime/device/cuda/timeline.h"
#include "runtime/device/device.h"

#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace dtc {

class CudaDevice final : public Device {
public:
  /// For a rank of this host, with the kernels of a program: `manifest` and `code` are needed no longer than the
  /// constructor. Without `library` all of the library's kernels are code of the program. Errors as those of cuda::Gpu,
  /// codeFor and loadCode. Without `graphs` nothing is noted as a sequence; nor is it where CUDA_LAUNCH_BLOCKING asks
  /// for launches one by one.
  CudaDevice(const abi::Manifest &manifest, std::string_view code, const cuda::LocalRank &rank,
             std::unique_ptr<cuda::LibraryKernels> library, bool graphs = true);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice &) = delete;
  CudaDevice &operator=(const CudaDevice &) = delete;

  const cuda::Gpu &getGpu() const { return *gpu; }
  /// On which everything that the device is given stands in order.
  cuda::StreamHandle getStream() const { return context.stream; }

  /// Where memory comes from that is allocated from now on. Its functions stay for as long as that does.
  void allocateBy(const cuda::MemorySource &from) { source = from; }
  std::unique_ptr<Memory> allocate(uint64_t bytes, uint64_t sharedBegin) override;

  /// Pinned: the GPU copies from and to it by itself. Its end waits for all that the GPU has been given.
  std::unique_ptr<Memory> allocateHost(uint64_t bytes) override;

  /// A generated kernel's passes; of the library, a function of the host or else code of the program.
  Kernel load(const abi::Kernel &kernel) override;

  /// Gives all passes of a kernel to the stream. Grids of generated kernels are part of their code. Throws DeviceError
  /// naming the kernel where the driver refuses it, or an earlier launch has failed.
  void launch(Kernel kernel, std::span<void *const> buffers, std::span<const int64_t> scalars, int64_t grid,
              int64_t grain) override;

  /// A CUDA graph: what is given again is given at the cost of one launch.
  bool beginSequence() override;
  Sequence endSequence() override;
  void give(Sequence sequence) override;

  void copy(std::byte *target, const std::byte *source, uint64_t bytes) override;
  CopyHandle startCopy(std::byte *target, const std::byte *source, uint64_t bytes, uint32_t channel) override;
  void awaitCopy(const CopyHandle &copy) override;
  void read(std::span<std::byte> host, const std::byte *address) override;
  void write(std::byte *address, std::span<const std::byte> host) override;
  size_t mark() override { return mark(context.stream); }
  size_t mark(cuda::StreamHandle stream) { return timeline->mark(stream); }
  size_t markCopies(uint32_t channel) override { return mark(sideCopies->streamOf(channel)); }
  std::vector<int64_t> takeMoments() override { return timeline->take(); }
  std::optional<DeviceFigures> figures(bool sixteenBits) const override;
  std::vector<std::string> takeNotes() override;
  Event record() override;
  void wait(Event event) override;

private:
  struct Pass {
    cuda::Function function;
    unsigned blocks, threads;
  };
  struct Loaded {
    std::string symbol;
    cuda::LibraryFunction host;   ///< empty: `passes` are it; else they are what it leaves, if there are any
    cuda::LibraryAttempt attempt; ///< if there is one, `passes` do what it does not take
    std::vector<Pass> passes;
    bool isLibrary = false;
    uint64_t scratchBytes = 0;
  };
  class GpuMemory;
  class PinnedMemory;

  cuda::Function findFunction(const std::string &name) const;
  void addPasses(const abi::Kernel &kernel, Loaded &loaded) const;
  void collectArguments(const Loaded &kernel, std::span<void *const> buffers, std::span<const int64_t> scalars,
                        int64_t grid, bool hasScratch);
  void givePasses(const Loaded &kernel);
  template <typename Call> auto callHost(const Loaded &kernel, Call call);
  void require(int result, const Loaded &kernel) const;
  void release() noexcept;

  std::shared_ptr<cuda::Gpu> gpu; ///< memory may outlive the device
  cuda::Module module = nullptr;
  std::unique_ptr<cuda::LibraryKernels> library;
  cuda::LibraryContext context;
  std::vector<std::string> notes;
  cuda::MemorySource source; ///< of what is allocated
  cuda::Allocation scratch;  ///< that the passes of one kernel share; there with the first memory
  uint64_t scratchBytes = 0; ///< of the kernel that needs most
  std::optional<cuda::Staging> staging;
  std::optional<cuda::SideCopies> sideCopies;
  std::optional<cuda::Timeline> timeline;
  std::deque<Loaded> kernels;
  std::vector<cuda::GraphExec> sequences;
  const bool notesSequences;
  bool isNoting = false;           ///< a sequence
  std::vector<uint64_t> arguments; ///< of the launch being given
  std::vector<void *> argumentAddresses;

  /// Events in turn: one that is recorded again is a later point of the same stream, so waiting for it is enough.
  static constexpr uint64_t Events = 64;
  std::vector<cuda::EventHandle> events;
  Event recorded = 0, reached = 0;
};

} // namespace dtc
