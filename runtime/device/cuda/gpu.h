// One GPU: its context, its properties, and the program's code for it.
#pragma once

#include "runtime/device/cuda/driver.h"
#include "runtime/device/device.h"

#include "runtime/abi/manifest.pb.h"
#include "runtime/support/not_copied.h"

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::cuda {

/// A rank's place among the ranks of this host.
struct LocalRank {
  int number = 0, count = 1;
  bool sharesGpu = false; ///< may share one GPU with others
};

/// Functions that allocate and free GPU memory, with NCCL's signatures; they return 0 on success.
struct MemorySource {
  int (*allocate)(void **address, size_t bytes) = nullptr; ///< null: the driver's own
  int (*free)(void *address) = nullptr;
};

/// Memory of a GPU.
struct Allocation {
  DevicePointer address = 0;
  uint64_t bytes = 0;
  int (*free)(void *address) = nullptr; ///< null: the driver's own
};

/// Architectures as numbers: 90 for sm_90.
class Gpu : NotCopied {
public:
  /// The GPU of a rank: ranks are assigned to the visible GPUs round-robin. Throws Error (Runtime) like Driver.
  explicit Gpu(const LocalRank &rank);
  ~Gpu();

  const Driver driver;

  /// Driver calls use the thread's current context: call this first on every thread.
  void makeCurrent() const { driver.check(driver.contextSetCurrent(context), "the GPU's context is lost"); }

  bool tryMakeCurrent() const noexcept { return driver.contextSetCurrent(context) == Success; }

  int architecture() const { return computeCapability; }
  int multiprocessors() const { return processors; }
  const Uuid &uuid() const { return identity; }     ///< the same in all processes, and unique
  const std::string &name() const { return words; } ///< "GPU 0 (NVIDIA H100, sm_90)"
  const std::string &modelName() const { return model; }

  /// See DeviceFigures.
  double peakFlops(bool sixteenBits) const;
  uint64_t allocatedBytes() const { return allocated; }
  double waitedSeconds() const { return double(waitedNanoseconds) / 1e9; }

  /// Uninitialized GPU memory. Throws Error (Runtime) if there is too little, with the available amount and `purpose`:
  /// "the program's tensors". `more`: bytes to be allocated afterwards, which count as needed, too, like the memory
  /// left to NVIDIA's libraries. `source` is tried first, then the driver.
  Allocation allocate(uint64_t bytes, const char *purpose, uint64_t more = 0, const MemorySource &source = {}) const;
  void free(const Allocation &memory) const noexcept;

  /// A stream whose work takes priority over that of other streams.
  StreamHandle makeUrgentStream() const;

  /// Waits for an event; one that was never recorded counts as over. Throws DeviceError if a launch before it failed.
  void await(EventHandle event) const;

private:
  DeviceNumber number = 0;
  Context context = nullptr;
  int computeCapability = 0, processors = 0, ranks = 1; ///< `ranks`: how many share it
  Uuid identity;
  std::string model, words;
  mutable std::atomic<uint64_t> allocated = 0;
  mutable std::atomic<int64_t> waitedNanoseconds = 0;
};

/// The peak rate of dense products of a GPU model per second, from its data sheet: for 16-bit elements with f32 sums,
/// or for f32; 0 for an unlisted model. `model`: the driver's name.
double peakFlopsOf(std::string_view model, bool sixteenBits);

/// The parts of a program's code that an architecture can run, best first: machine code for its generation but not for
/// a newer architecture, then PTX for no newer architecture; in each case the newest first. Throws Error (Runtime) if
/// there is none, Error (BadInput) if a part is outside `code`.
std::vector<const abi::CodePart *> codeFor(const abi::Manifest &manifest, std::string_view code, int architecture,
                                           const std::string &gpu);

/// Loads the first of `parts` that the driver accepts: an older driver refuses machine code from a newer ptxas, but
/// compiles the accompanying PTX. `notes` gets a line for each refused part. Throws Error (Runtime) with the driver's
/// message for each if it accepts none, or if it cannot continue.
Module loadCode(const Gpu &gpu, const std::vector<const abi::CodePart *> &parts, std::string_view code,
                std::vector<std::string> &notes);

} // namespace dtc::cuda
