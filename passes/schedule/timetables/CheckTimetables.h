// Checks timetables by the rules by which programs are refused.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/schedule/emit/EmitTimetables.h"

namespace dtc {

/// M9 of dt-verify-when: reports what is wrong with a role's timetables (runtime/abi/timetable_check.h). What its
/// functions hand to each other for a micro-batch stands for the memory that they read and write. `duties`: of the
/// module. `microBatches`: those of a step; 0: as many as the timetable names.
mlir::LogicalResult checkTimetables(mlir::ModuleOp module, int64_t role, llvm::ArrayRef<mlir::func::FuncOp> functions,
                                    const Duties &duties, int64_t microBatches);

} // namespace dtc
