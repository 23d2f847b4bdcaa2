// The targets there are. A module says which one it is for (dt.target), so that whoever has a kernel can look it up.
#pragma once

#include "passes/lower/Target.h"

#include "mlir/IR/BuiltinOps.h"

namespace dtc {

/// The target of that name, which lives as long as the process: "native" (this machine's processor), "x86-64-v3",
/// "x86-64-v4", or "cuda:" with architectures of NVIDIA's GPUs ("cuda:sm_90", "cuda:sm_80,sm_100"). Null, with the
/// reason in `why`, for other names and for machines below x86-64-v3.
const Target *findTarget(llvm::StringRef name, std::string &why);

/// Says which target a module is for from here on.
void setTarget(mlir::ModuleOp module, llvm::StringRef name);

/// The target of the module around `op`; x86-64-v3 if it does not say, as in tests of single passes.
const Target &targetOf(mlir::Operation *op);

} // namespace dtc
