// Writes timetables down as the manifest has them.
#pragma once

#include "dialect/IR/Attributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/abi/manifest.pb.h"

namespace dtc {

/// What a list is for; once, where nothing says so.
abi::CommandList::Duty abiDutyOf(mlir::dt::DutyAttr duty);

/// How messages and `dtc inspect` call what the ranks of a stage do.
std::string nameOfRole(mlir::ModuleOp module, int64_t stage);

/// The timetables of a stage, one to one. `listOf`: the list of a function, which may be that of an equal one.
void emitTimetables(mlir::ModuleOp module, int64_t stage, const llvm::StringMap<std::string> &listOf, abi::Role &role);

} // namespace dtc
