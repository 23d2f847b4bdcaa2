// Compares what a program says about its model, apart from its parameters and command lists, with the model.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "runtime/abi/manifest.pb.h"

#include <string>

namespace dtc::verify {

/// Whether parameters have copies in another type.
bool hasCopies(const abi::Manifest &manifest);

/// A role with the timetables of a step of `accumulation` micro-batches, of an evaluation of one micro-batch, and of
/// copying parameters, where there are copies.
abi::Role timetableOf(int64_t accumulation, bool hasCopies = false);

/// Likewise for a program that generates.
abi::Role generationTimetables(bool hasCaches);

/// What differs between the timetables of a role and the expected ones; or empty.
std::string findTimetableDifference(const abi::Role &role, const abi::Role &expected);

/// Empty when the program has the logical module's name and sizes, and each tensor that the module's functions pass has
/// the module's shape and type; otherwise the first difference. The runtime reads these; the command lists would run
/// without them. Roles and timetables: Marks.h.
std::string findStatementDifference(mlir::ModuleOp logical, const abi::Manifest &manifest);

} // namespace dtc::verify
