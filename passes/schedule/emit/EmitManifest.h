// From a module whose operations are launches, library calls, views and collectives to the program's manifest.
#pragma once

#include "passes/schedule/memory/ArenaLayout.h"
#include "runtime/abi/manifest.pb.h"

namespace dtc {

abi::Mesh emitMesh(mlir::dt::MeshAttr mesh);

/// Fills the manifest's mesh, parameters, kernels, locations, stages and command lists, and a role for each rank along
/// the pipeline, with its tensors, timetables and memory use. The caller fills in the rest (target, training, names). Kernel.reference
/// holds the text of each kernel's dt.kernel.
mlir::LogicalResult emitManifest(mlir::ModuleOp module, abi::Manifest &manifest);

} // namespace dtc
