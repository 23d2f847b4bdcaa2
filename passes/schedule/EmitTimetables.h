// What the functions of a module are for, and when they run.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "runtime/abi/manifest.pb.h"

namespace dtc {

/// What a function of that name does for a micro-batch.
abi::CommandList::Duty dutyOf(llvm::StringRef function);

/// The timetables of a role: a step of `accumulation` micro-batches, an evaluation of one, and where the module makes
/// copies of parameters when that is done.
void emitTimetables(mlir::ModuleOp module, int64_t accumulation, abi::Role &role);

} // namespace dtc
