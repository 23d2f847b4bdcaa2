// Steps that overlap behind an early update: the entries of a step, turned.
//
// A rank's entries of one step are the passes with their transfers. Some passes at the beginning are *early*: they come
// behind the update of the step before, and before the ranks exchange what that update should have known. While step k
// is the running one, a rank runs
//
//   the rest of step k                   all but its early passes
//   keep, assume, update                 of step k
//   the early passes of step k + 1       with their transfers
//   the exchange                         of step k; the host learns whether the update holds
//
// and, where it does not hold, the timetable "redo":
//
//   receive and drop, await sends        what early passes have left under way
//   restore, update                      of step k
//   the early passes of step k + 1       once more
//
// Early passes are forward passes that read only what other early passes send. A receive of anything else, which would
// begin among them, begins behind the exchange instead: what early passes send once more must not meet it.
#pragma once

#include "passes/schedule/TransferFunctions.h"
#include "passes/schedule/timetables/PlacedEntries.h"

#include <set>
#include <tuple>

namespace dtc {

/// A pass: its stage, whether it is a forward pass, and its micro-batch.
using PassKey = std::tuple<int64_t, bool, int64_t>;
using EarlyPasses = std::set<PassKey>;

/// What a rank does once a step. Null where it has nothing to do.
struct OnceFunctions {
  mlir::func::FuncOp keep, restore, assume, update, exchange;

  static OnceFunctions of(mlir::ModuleOp module, int64_t rank);
};

struct TurnedStep {
  llvm::SmallVector<mlir::dt::EntryAttr> period, redo;
};

/// `entries`: a rank's passes and transfers of one step. `early`: of all ranks; those of the rank are its first passes.
TurnedStep turnStep(llvm::ArrayRef<RunEntry> entries, const EarlyPasses &early, const OnceFunctions &once,
                    const TransferFunctions &transfers);

} // namespace dtc
