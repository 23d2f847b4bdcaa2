// The machine code of a program's generated kernels against what the manifest says they mean, as launches call them.
#pragma once

#include "mlir/IR/MLIRContext.h"
#include "runtime/abi/manifest.pb.h"
#include "tools/verify/KernelCode.h"

#include <string>
#include <vector>

namespace dtc::verify {

struct CodeReport {
  std::string failure;           ///< empty: all agree; else the kernel and what it does wrong
  int64_t kernels = 0;           ///< that ran
  int64_t compared = 0;          ///< elements of their outputs, over all runs
  std::vector<std::string> cut;  ///< kernels of whose grid only a part ran
  std::vector<std::string> left; ///< kernels that did not run, as their meaning takes too long to evaluate
};

/// The code of a kernel's symbol; an empty function where there is none.
using FindCode = std::function<CodeFunction(const std::string &symbol)>;

/// Runs every generated kernel that a list launches, in place as the launches have it and not, its grid whole and in
/// parts, on several draws of inputs; on the first rank and the last. Takes about `seconds` at most.
CodeReport checkCode(const abi::Manifest &program, const FindCode &find, mlir::MLIRContext &context,
                     double seconds = 40);

} // namespace dtc::verify
