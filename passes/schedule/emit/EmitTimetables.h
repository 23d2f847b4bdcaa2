// Writes timetables in the manifest's form.
#pragma once

#include "dialect/IR/Attributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/abi/manifest.pb.h"

namespace dtc {

/// What a list is for; `once` if it does not say.
abi::CommandList::Duty abiDutyOf(mlir::dt::DutyAttr duty);

using Duties = llvm::DenseMap<mlir::StringAttr, mlir::dt::DutyAttr>; ///< of functions, by their names
Duties dutiesIn(mlir::ModuleOp module);

/// The timetables of a role, one to one. `duties`: of the module. `listOf`: the list of a function, which may be that
/// of an equal one.
void emitTimetables(mlir::ModuleOp module, int64_t number, const Duties &duties,
                    const llvm::StringMap<std::string> &listOf, abi::Role &role);

} // namespace dtc
