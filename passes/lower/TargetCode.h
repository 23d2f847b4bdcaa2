// The code that a target makes of kernels, as a program file carries it.
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
  /// Functions that are not there under their own name, as they equal another: that one's. Of targets whose code cannot
  /// say so itself.
  llvm::StringMap<std::string> sharedFunctions;
  std::string error; ///< why there is none; empty: there is
};

} // namespace dtc
