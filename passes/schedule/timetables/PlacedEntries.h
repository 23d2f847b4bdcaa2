// The places of memory in which the entries of a timetable work.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/schedule/Spaces.h"

#include <set>

namespace dtc {

/// A space, and the stage whose micro-batch has the place there in which a function works.
using OwnedSpace = std::pair<Space, int64_t>;
std::set<OwnedSpace> ownedBy(mlir::func::FuncOp function);

/// Runs a function once, for a micro-batch or, with -1, for none.
struct RunEntry {
  mlir::func::FuncOp function;
  int64_t microBatch = -1;
};

/// What a rank runs, in order, with the place of each entry in each space. What belongs to a micro-batch under way gets
/// the lowest place that is free from the entry that makes it to the last that needs it.
llvm::SmallVector<mlir::dt::EntryAttr> placeEntries(llvm::ArrayRef<RunEntry> entries);

} // namespace dtc
