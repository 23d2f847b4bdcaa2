// The code that a target generates for kernels, as a program file carries it.
#pragma once

#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace dtc {

/// One form of the code: the shared object of a processor ("elf"), or assembly or machine code for GPUs of one
/// architecture ("ptx.sm_90", "cubin.sm_90").
struct CodeSection {
  std::string name, bytes;
};

struct TargetCode {
  std::vector<CodeSection> sections; ///< none without kernels
  /// For functions that are not there under their own name, because they equal another: that one's name. Only for
  /// targets whose code cannot say so itself.
  llvm::StringMap<std::string> sharedFunctions;
  std::string error; ///< why there is no code; empty: there is some
};

} // namespace dtc
