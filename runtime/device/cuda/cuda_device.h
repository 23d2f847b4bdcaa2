// An NVIDIA GPU as a device: one stream for launches and copies in order, other streams for asynchronous copies, and
// memory that the host accesses only through pinned buffers.
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
  /// For a rank on this host, with the kernels of a program. `manifest` and `code` are used only by the constructor.
  /// Without `library` all library kernels come from the program's code. Throws like cuda::Gpu, codeFor and loadCode.
  /// Without `graphs` no sequences are recorded, nor with CUDA_LAUNCH_BLOCKING, which asks for separate launches.
  CudaDevice(const abi::Manifest &manifest, std::string_view code, const cuda::LocalRank &rank,
             std::unique_ptr<cuda::LibraryKernels> library, bool graphs = true);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice &) = delete;
  CudaDevice &operator=(const CudaDevice &) = delete;

  const cuda::Gpu &getGpu() const { return *gpu; }
  /// The stream on which everything given to the device runs in order.
  cuda::StreamHandle getStream() const { return context.stream; }

  /// Sets the source of all memory allocated from now on. Its functions must outlive that memory.
  void allocateBy(const cuda::MemorySource &from) { source = from; }
  std::unique_ptr<Memory> allocate(uint64_t bytes, uint64_t sharedBegin) override;

  /// Pinned memory, which the GPU accesses directly. Its destructor waits for all work given to the GPU.
  std::unique_ptr<Memory> allocateHost(uint64_t bytes) override;

  /// For a generated kernel, its passes; for a library kernel, a host function or else code of the program.
  Kernel load(const abi::Kernel &kernel) override;

  /// Enqueues all passes of a kernel on the stream. Grids of generated kernels are part of their code. Throws
  /// DeviceError naming the kernel if the driver refuses it or an earlier launch has failed.
  void launch(Kernel kernel, std::span<void *const> buffers, std::span<const int64_t> scalars, int64_t grid,
              int64_t grain) override;

  /// Records a CUDA graph: giving it again costs one launch.
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
    cuda::LibraryFunction host;   ///< empty: `passes` are the kernel; else they do what it leaves, if anything
    cuda::LibraryAttempt attempt; ///< if set, `passes` do what it refuses
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
  cuda::MemorySource source; ///< of allocations
  cuda::Allocation scratch;  ///< shared by a kernel's passes; allocated with the first memory
  uint64_t scratchBytes = 0; ///< of the kernel that needs the most
  std::optional<cuda::Staging> staging;
  std::optional<cuda::SideCopies> sideCopies;
  std::optional<cuda::Timeline> timeline;
  std::deque<Loaded> kernels;
  std::vector<cuda::GraphExec> sequences;
  const bool notesSequences;
  bool isNoting = false;           ///< whether a sequence is being recorded
  std::vector<uint64_t> arguments; ///< of the current launch
  std::vector<void *> argumentAddresses;

  /// Events are reused in turn. A reused event stands for a later point of the same stream, so waiting for it is
  /// enough.
  static constexpr uint64_t Events = 64;
  std::vector<cuda::EventHandle> events;
  Event recorded = 0, reached = 0;
};

} // namespace dtc
