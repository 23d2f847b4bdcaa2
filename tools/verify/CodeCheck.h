// Compares the machine code of a program's kernels with the meaning that the manifest states, called as launches do.
#pragma once

#include "mlir/IR/MLIRContext.h"
#include "runtime/abi/manifest.pb.h"
#include "tools/verify/KernelCode.h"

#include <string>
#include <vector>

namespace dtc::verify {

struct CodeReport {
  std::string failure;           ///< empty: all agree; otherwise the kernel and what it does wrong
  int64_t kernels = 0;           ///< that ran
  int64_t compared = 0;          ///< elements of their outputs, over all runs
  std::vector<std::string> cut;  ///< kernels that ran on a part of their grid, or on smaller sizes
  std::vector<std::string> left; ///< kernels that did not run, as their meaning takes too long to evaluate
};

/// The code of a kernel's symbol; an empty function where there is none.
using FindCode = std::function<CodeFunction(const std::string &symbol)>;

/// Runs every kernel that a list launches, on several draws of inputs, its grid whole and in parts, with the scalars of
/// the first rank and the last: a generated kernel both in place, as its launches have it, and not in place; a library
/// kernel as each launch has it. Generated kernels take about `seconds` at most.
CodeReport checkCode(const abi::Manifest &program, const FindCode &find, mlir::MLIRContext &context,
                     double seconds = 40);

} // namespace dtc::verify
