// Compares what a program says about its parameters in the model file with what the model says.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "runtime/abi/manifest.pb.h"

#include <string>

namespace dtc::verify {

/// Empty when the manifest describes each parameter as the logical module does: its names, its shape in the file, the
/// bijection to the logical tensor, its initialisation and decay; and when each tensor of a parameter's state belongs
/// to the parameter of its name. Otherwise the first difference. The command lists use none of this: the runtime does,
/// to read and write files, to initialise and to decay.
std::string findParameterDifference(mlir::ModuleOp logical, const abi::Manifest &manifest);

} // namespace dtc::verify
