// The weights next to a config.json, checked against the model. Their values stay where they are.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace dtc::huggingface {

/// True when `directory` holds safetensors weights, after checking that they have every parameter of the module in its
/// file shape and in a type that can be read, and nothing that the model does not have. Throws Error (BadInput) naming
/// the tensor, or the file where there are weights that would not be read.
bool checkWeights(const std::string &directory, mlir::ModuleOp module);

} // namespace dtc::huggingface
