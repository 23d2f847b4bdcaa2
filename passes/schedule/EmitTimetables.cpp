// What the functions of a module are for, and when they run.
#include "passes/schedule/EmitTimetables.h"

#include "dialect/IR/Names.h"
#include "runtime/abi/timetables.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

abi::CommandList::Duty dutyOf(StringRef name) {
  if (name == function::micro || name == function::microNext || name == function::microLast)
    return abi::CommandList::BOTH_PASSES;
  return name == function::eval ? abi::CommandList::FORWARD_PASS : abi::CommandList::ONCE;
}

/// One step: the micro-batches, of which the last reduces what they summed, and the update. One evaluation is one
/// micro-batch. Where parameters have copies, these are made anew when the host has written parameters.
void emitTimetables(ModuleOp module, int64_t accumulation, abi::Role &role) {
  abi::Timetable &step = abi::timetableIn(role, abi::stepTimetable);
  for (int64_t micro = 0; micro < accumulation; ++micro) {
    auto *entry = step.add_period();
    entry->set_list((micro + 1 == accumulation ? function::microLast
                     : micro == 0              ? function::micro
                                               : function::microNext)
                        .str());
    entry->set_micro_batch(micro);
  }
  step.add_period()->set_list(function::update.str());
  auto *evaluation = abi::timetableIn(role, abi::evaluationTimetable).add_period();
  evaluation->set_list(function::eval.str());
  evaluation->set_micro_batch(0);
  if (module.lookupSymbol(function::refresh))
    abi::timetableIn(role, abi::refreshTimetable).add_period()->set_list(function::refresh.str());
}

} // namespace dtc
