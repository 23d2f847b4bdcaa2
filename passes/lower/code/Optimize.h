// LLVM's optimisation of generated kernels.
#pragma once

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace dtc {

/// Vectors are there already: no vectorizers, no unrolling. Library functions do not exist: no loop becomes memset.
void optimizeKernels(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace dtc
