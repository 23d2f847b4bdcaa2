// When a pipeline's ranks begin to receive, and wait until something has been sent.
//
// A rank begins each receive one pass ahead, and earlier where the sender sends something else to it before: what one
// rank sends another has one channel, and the two sides use it in one order, the sender's. A send is waited for when a
// third one of its kind would be under way, but only where the receiver has surely begun to receive by then: in an
// order in which all ranks' passes can run, it does so before the pass that waits. So no wait can be part of a circle.
// Where steps overlap, a rank also waits at the end of its part of a step for what it has sent of that step.
//
// What a stage hands to another one of its own rank is copied once it is there.
#pragma once

#include "passes/schedule/TransferFunctions.h"
#include "passes/schedule/timetables/PlacedEntries.h"

namespace dtc {

/// A pass of a micro-batch through a stage. Where steps overlap, micro-batches are numbered through all steps.
struct PlannedPass {
  mlir::func::FuncOp function;
  int64_t microBatch;
  int64_t at; ///< its number in an order in which the passes of all ranks can run
  /// Behind it the rank waits until everything of the micro-batches up to this one has been sent; -1: of none. Each
  /// receiver must surely begin to receive it by then.
  int64_t settles = -1;
  std::vector<RunEntry> then = {}; ///< what the rank runs behind all that
};

/// The passes of each role, with the transfers between them.
std::vector<std::vector<RunEntry>> addTransfers(llvm::ArrayRef<std::vector<PlannedPass>> roles,
                                                const TransferFunctions &transfers);

} // namespace dtc
