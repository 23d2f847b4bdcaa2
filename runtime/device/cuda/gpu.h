// One GPU as the driver gives it: its context, its figures, and the program's code for it.
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

/// A rank among those of this host.
struct LocalRank {
  int number = 0, count = 1;
  bool sharesGpu = false; ///< may work on one GPU with others
};

/// Functions that give and take back memory of the GPU, as NCCL has them; 0 says that all is well.
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
  /// The GPU that a rank works on: that of its number, of those which it sees, in turn. Throws Error (Runtime) as
  /// Driver does.
  explicit Gpu(const LocalRank &rank);
  ~Gpu();

  const Driver driver;

  /// Each thread has a context of its own that calls refer to: to be called first on every one.
  void makeCurrent() const { driver.check(driver.contextSetCurrent(context), "the GPU's context is lost"); }

  bool tryMakeCurrent() const noexcept { return driver.contextSetCurrent(context) == Success; }

  int architecture() const { return computeCapability; }
  int multiprocessors() const { return processors; }
  const Uuid &uuid() const { return identity; }     ///< the same in all processes, and no other GPU's
  const std::string &name() const { return words; } ///< "GPU 0 (NVIDIA H100, sm_90)"
  const std::string &modelName() const { return model; }

  /// See DeviceFigures.
  double peakFlops(bool sixteenBits) const;
  uint64_t allocatedBytes() const { return allocated; }
  double waitedSeconds() const { return double(waitedNanoseconds) / 1e9; }

  /// Memory of the GPU, not set to anything. Throws Error (Runtime) where there is too little, with what is there and
  /// `purpose`: "the program's tensors". `more`: what is to be asked for after it, which counts as needed too, as does
  /// what NVIDIA's libraries are left. `source` is asked first; what it has not, the driver gives.
  Allocation allocate(uint64_t bytes, const char *purpose, uint64_t more = 0, const MemorySource &source = {}) const;
  void free(const Allocation &memory) const noexcept;

  /// A stream whose work goes before that of others where both can run.
  StreamHandle makeUrgentStream() const;

  /// Waits for an event; one that was never recorded is over. Throws DeviceError where a launch before it failed.
  void await(EventHandle event) const;

private:
  DeviceNumber number = 0;
  Context context = nullptr;
  int computeCapability = 0, processors = 0, ranks = 1; ///< that share it
  Uuid identity;
  std::string model, words;
  mutable std::atomic<uint64_t> allocated = 0;
  mutable std::atomic<int64_t> waitedNanoseconds = 0;
};

/// Dense products a second of a model of GPUs, as its data sheet says: of 16-bit elements with sums in f32, or of f32;
/// 0 for one that is not in our list. `model`: as the driver calls it.
double peakFlopsOf(std::string_view model, bool sixteenBits);

/// The parts of a program's code that an architecture can run, the best first: machine code of its generation that is
/// not newer, then PTX that is not newer than it; of each the newest first. Throws Error (Runtime) where there is none,
/// Error (BadInput) where a part does not lie in `code`.
std::vector<const abi::CodePart *> codeFor(const abi::Manifest &manifest, std::string_view code, int architecture,
                                           const std::string &gpu);

/// Loads the first of `parts` that the driver takes: an older driver refuses machine code of a newer ptxas, and
/// assembles the PTX beside it. `notes` gets a line for each that was refused. Throws Error (Runtime) with the driver's
/// words for each where it takes none, or cannot go on.
Module loadCode(const Gpu &gpu, const std::vector<const abi::CodePart *> &parts, std::string_view code,
                std::vector<std::string> &notes);

} // namespace dtc::cuda
