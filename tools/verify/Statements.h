// What a program says of its model beside its parameters and command lists, against the model.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "runtime/abi/manifest.pb.h"

#include <string>

namespace dtc::verify {

/// Whether parameters have copies in another type.
bool hasCopies(const abi::Manifest &manifest);

/// A role whose timetables are those of a step of `accumulation` micro-batches, of an evaluation of one and of making
/// copies of parameters, where there are any.
abi::Role timetableOf(int64_t accumulation, bool hasCopies = false);

/// Likewise of a program that generates.
abi::Role generationTimetables(bool hasCaches);

/// What differs between what a role runs and what it should; or empty.
std::string findTimetableDifference(const abi::Role &role, const abi::Role &expected);

/// Empty when the program has the logical module's name and sizes and each tensor that the module's functions pass in
/// the module's shape and type; otherwise the first difference. The runtime reads these; the command lists would run
/// without them. Roles and timetables: Marks.h.
std::string findStatementDifference(mlir::ModuleOp logical, const abi::Manifest &manifest);

} // namespace dtc::verify
