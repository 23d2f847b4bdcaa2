// Writes timetables in the manifest's form.
#include "passes/schedule/emit/EmitTimetables.h"

#include "passes/schedule/memory/ArenaLayout.h"

#include "dialect/IR/Names.h"
#include "passes/analysis/Stages.h"
#include "runtime/abi/timetables.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

abi::CommandList::Duty abiDutyOf(DutyAttr duty) {
  switch (duty ? duty.getTask() : Task::Once) {
  case Task::Once:
    return abi::CommandList::ONCE;
  case Task::Forward:
    return abi::CommandList::FORWARD_PASS;
  case Task::Backward:
    return abi::CommandList::BACKWARD_PASS;
  case Task::Both:
    return abi::CommandList::BOTH_PASSES;
  case Task::Transfer:
    return abi::CommandList::TRANSFER;
  case Task::Exchange:
    return abi::CommandList::EXCHANGE;
  case Task::InputGradients:
    return abi::CommandList::INPUT_GRADIENTS;
  case Task::WeightGradients:
    return abi::CommandList::WEIGHT_GRADIENTS;
  }
  llvm_unreachable("all tasks are covered");
}

Duties dutiesIn(ModuleOp module) {
  Duties duties;
  for (auto function : module.getOps<func::FuncOp>())
    duties.try_emplace(function.getSymNameAttr(), dutyOf(function));
  return duties;
}

/// Places of spaces that turned out to be empty are left out.
static void emitEntry(EntryAttr entry, const Duties &duties, const llvm::StringMap<std::string> &listOf,
                      const abi::Role &role, abi::TimetableEntry &out) {
  StringAttr function = entry.getFunction().getAttr();
  auto list = listOf.find(function);
  out.set_list(list == listOf.end() ? function.str() : list->second);
  if (DutyAttr duty = duties.lookup(function)) // a verifier says where there is no such function
    out.set_stage(static_cast<uint32_t>(duty.getStage()));
  if (entry.getMicroBatch() >= 0)
    out.set_micro_batch(entry.getMicroBatch());
  out.set_step(static_cast<int32_t>(entry.getStep()));
  for (auto [space, place] : llvm::zip(role.spaces(), entry.getPlaces()))
    out.add_places(space.places() > 1 ? static_cast<uint32_t>(place) : 0);
  while (!out.places().empty() && *out.places().rbegin() == 0)
    out.mutable_places()->RemoveLast();
  for (auto [space, turns] : llvm::zip(role.spaces(), entry.getTurns()))
    out.add_turns(space.places() > 1 ? static_cast<uint32_t>(turns) : 0);
  while (!out.turns().empty() && *out.turns().rbegin() == 0)
    out.mutable_turns()->RemoveLast();
}

void emitTimetables(ModuleOp module, int64_t number, const Duties &duties, const llvm::StringMap<std::string> &listOf,
                    abi::Role &role) {
  auto timetables = module->getAttrOfType<ArrayAttr>(module_attr::timetables);
  if (!timetables)
    return;
  for (auto timetable : timetables.getAsRange<TimetableAttr>())
    if (timetable.getRank() == number)
      for (EntryAttr entry : timetable.getEntries())
        emitEntry(entry, duties, listOf, role, *abi::timetableIn(role, timetable.getName().getValue()).add_period());
  if (module->hasAttr(module_attr::sumsByTimetable) && !abi::timetableOf(role, abi::stepTimetable).period().empty())
    abi::timetableIn(role, abi::stepTimetable).set_sums_by_timetable(true);
}

} // namespace dtc
