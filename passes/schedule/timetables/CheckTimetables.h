// Checks timetables by the rules by which programs are refused.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace dtc {

/// M9 of dt-verify-when: reports what is wrong with a role's timetables (runtime/abi/timetable_check.h). What
/// functions hand to each other for a micro-batch stands for the memory that they read and write. `microBatches`: those
/// of a step; 0: as many as the timetable names.
mlir::LogicalResult checkTimetables(mlir::ModuleOp module, int64_t role, int64_t microBatches);

} // namespace dtc
