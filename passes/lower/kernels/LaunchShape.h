// How a target launches a kernel.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace dtc {

/// One of the launches that a GPU makes of a kernel, one after the other.
struct LaunchPass {
  std::string function = {};
  int64_t blocks = 1, threads = 1; ///< and threads per block
};

/// The function of a kernel's pass: the first has the kernel's name.
std::string passFunction(llvm::StringRef kernel, size_t pass);

/// How a kernel is launched.
struct LaunchShape {
  int64_t grid = 1;        ///< the launch covers [0, grid); processors cut it
  int64_t grain = 1;       ///< the multiples at which a launch should be cut
  int64_t columnBlock = 0; ///< columns that one index of a Columns kernel computes
  /// Several threads compute a row together: its single value of an output must not overwrite what some of them may yet
  /// read.
  bool sharesRows = false;
  llvm::SmallVector<LaunchPass, 2> passes = {}; ///< on GPUs, which do not cut it
  int64_t scratchBytes = 0;                     ///< that the passes share and that are in no buffer
};

/// A kernel of a target's library, for one call.
struct LibraryKernel {
  std::string symbol;
  /// On GPUs, for kernels whose code is made for the call: as for generated ones. If there are none, the runtime knows
  /// them.
  llvm::SmallVector<LaunchPass, 2> passes = {};
  int64_t scratchBytes = 0;
};

} // namespace dtc
