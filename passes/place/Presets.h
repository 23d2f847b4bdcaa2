// The strategies known by name.
#pragma once

#include "passes/place/Annotations.h"

namespace dtc {

/// What to do about an axis of this name that splits nothing, if the name says what it is meant for; or "".
std::string adviceOnAxis(llvm::StringRef axis);

/// Names of all presets.
llvm::ArrayRef<llvm::StringRef> getPresetNames();

/// Whether the text names presets: one, or several joined as in "megatron-sp+zero3"; "hsdp:4" says how many ranks share
/// a copy.
bool isPreset(llvm::StringRef text);

/// What they say together for this mesh and these parameters. Axes that the mesh lacks are left out: megatron on a mesh
/// of dp alone is ddp. Fails with an error where a preset is not possible on this mesh.
mlir::FailureOr<Annotations> buildPreset(llvm::StringRef text, mlir::dt::MeshAttr mesh,
                                         llvm::ArrayRef<mlir::dt::ParamAttr> parameters, ErrorCallback error);

} // namespace dtc
