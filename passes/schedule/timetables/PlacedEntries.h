// The places of memory in which the entries of a timetable work.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/schedule/Spaces.h"

#include <set>

namespace dtc {

/// A space, and the stage whose micro-batch has the place there in which a function works.
using OwnedSpace = std::pair<Space, int64_t>;
std::set<OwnedSpace> ownedBy(mlir::func::FuncOp function);

/// Runs a function once, for a micro-batch or, with -1, for none. Where steps overlap, micro-batches are numbered
/// through all steps, of which each has one; `step` is the step of what has no micro-batch.
struct RunEntry {
  mlir::func::FuncOp function;
  int64_t microBatch = -1;
  int64_t step = 0;
};

/// What a rank runs, in order, with the place of each entry in each space. What belongs to a micro-batch under way gets
/// the lowest place that is free from the entry that makes it to the last that needs it.
llvm::SmallVector<mlir::dt::EntryAttr> placeEntries(llvm::ArrayRef<RunEntry> entries);

/// The same for a rank whose steps overlap. `entries`: of consecutive steps, of which [first, second) are those of the
/// running step `running`, and the same number behind them those of the next, for steps one later. Returns the first
/// ones; in each space a step takes turns in as many places as steps need it at once. An error where the two differ.
mlir::FailureOr<llvm::SmallVector<mlir::dt::EntryAttr>> placePeriod(llvm::ArrayRef<RunEntry> entries, size_t first,
                                                                    size_t second, int64_t running);

} // namespace dtc
