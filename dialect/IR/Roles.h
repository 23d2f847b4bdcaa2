// Names of the attributes by which functions, their arguments and results are recognised; see Dialect.td's forms.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace mlir::dt {

/// Attributes of a module.
namespace module_attr {
inline constexpr llvm::StringLiteral mesh = "dt.mesh", model = "dt.model", parameters = "dt.parameters",
                                     symbols = "dt.symbols";
} // namespace module_attr

/// Attributes of arguments, results and operations.
inline constexpr llvm::StringLiteral roleAttr = "dt.role", nameAttr = "dt.name", dimsAttr = "dt.dims",
                                     layerAttr = "dt.layer";

/// Values of dt.role: the same role and name mean the same tensor in every function.
namespace role {
inline constexpr llvm::StringLiteral parameter = "parameter", moment1 = "moment1", moment2 = "moment2",
                                     gradient = "gradient", reducedGradient = "reduced_gradient", input = "input",
                                     output = "output";
} // namespace role

/// The functions of a module.
namespace function {
inline constexpr llvm::StringLiteral loss = "loss", micro = "micro", microNext = "micro_next", reduce = "reduce",
                                     update = "update", eval = "eval";
} // namespace function

} // namespace mlir::dt
