// From a module whose operations are launches, library calls, views and collectives to the program's manifest.
#pragma once

#include "passes/schedule/ArenaLayout.h"
#include "runtime/abi/manifest.pb.h"

namespace dtc {

/// Fills the manifest's mesh, parameters, tensors, kernels, locations and the one role's command lists, timetable and
/// memory use. `accumulation` micro-batches make a step. The caller fills in the rest (target, training, names).
/// Kernel.reference holds the text of each kernel's dt.kernel.
mlir::LogicalResult emitManifest(mlir::ModuleOp module, ArenaLayout &arena, int64_t accumulation,
                                 abi::Manifest &manifest);

} // namespace dtc
