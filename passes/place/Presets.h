// The strategies known by name.
#pragma once

#include "passes/place/Annotations.h"

namespace dtc {

/// Names of all presets.
llvm::ArrayRef<llvm::StringRef> getPresetNames();

/// What a preset says for this mesh and these parameters, or nothing when no preset has the name. Axes that the mesh
/// lacks are left out: megatron on a mesh of dp alone is ddp.
std::optional<Annotations> buildPreset(llvm::StringRef name, mlir::dt::MeshAttr mesh,
                                       llvm::ArrayRef<mlir::dt::ParamAttr> parameters);

} // namespace dtc
