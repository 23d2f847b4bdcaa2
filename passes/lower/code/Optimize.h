// LLVM's optimisation of generated kernels.
#pragma once

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace dtc {

/// The code is vectorized already: no vectorizers, no unrolling. There are no library functions: no loop becomes
/// memset.
void optimizeKernels(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace dtc
