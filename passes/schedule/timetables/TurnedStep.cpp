// Steps that overlap behind an early update: the entries of a step, turned.
#include "passes/schedule/timetables/TurnedStep.h"

#include "passes/analysis/Stages.h"

#include "runtime/abi/timetables.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

//===----------------------------------------------------------------------===//
// What is done once
//===----------------------------------------------------------------------===//

static bool takes(func::FuncOp function, PortKind kind) {
  return llvm::any_of(llvm::seq<unsigned>(0, function.getNumArguments()),
                      [&](unsigned index) { return argumentPort(function, index).getKind() == kind; });
}

static bool returns(func::FuncOp function, PortKind kind) {
  return llvm::any_of(llvm::seq<unsigned>(0, function.getNumResults()),
                      [&](unsigned index) { return resultPort(function, index).getKind() == kind; });
}

OnceFunctions OnceFunctions::of(ModuleOp module, int64_t rank) {
  OnceFunctions once;
  for (func::FuncOp function : functionsOf(module, rank)) {
    DutyAttr duty = dutyOf(function);
    if (!duty || duty.getTimetable() != StringRef(abi::stepTimetable))
      continue;
    if (duty.getTask() == Task::Exchange)
      once.exchange = function;
    if (duty.getTask() != Task::Once)
      continue;
    (returns(function, PortKind::Kept)  ? once.keep
     : takes(function, PortKind::Kept)  ? once.restore
     : takes(function, PortKind::Share) ? once.assume // what the passes have left is all that it reads
                                        : once.update) = function;
  }
  return once;
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

namespace {

enum class EntryRole { Pass, Receive, Copy, Sent };

EntryRole roleOfEntry(func::FuncOp function) {
  if (dutyOf(function).getTask() != Task::Transfer)
    return EntryRole::Pass;
  if (function.getNumArguments() == 0)
    return EntryRole::Receive;
  return function.getNumResults() > 0 ? EntryRole::Copy : EntryRole::Sent;
}

/// The pass itself, the one whose message an entry receives, or the one whose message it has sent.
PassKey passOf(const RunEntry &entry) {
  func::FuncOp function = entry.function;
  int64_t stage = dutyOf(function).getStage();
  switch (roleOfEntry(function)) {
  case EntryRole::Receive: {
    bool isForward = resultPort(function, 0).getKind() == PortKind::Received;
    return {isForward ? stage - 1 : stage + 1, isForward, entry.microBatch};
  }
  case EntryRole::Sent:
    return {stage, argumentPort(function, 0).getKind() == PortKind::Sent, entry.microBatch};
  default:
    return {stage, dutyOf(function).getTask() == Task::Forward, entry.microBatch};
  }
}

class StepTurner {
public:
  StepTurner(ArrayRef<RunEntry> entries, const EarlyPasses &early, const OnceFunctions &once,
             const TransferFunctions &transfers)
      : entries(entries), early(early), once(once), transfers(transfers), placed(placeEntries(entries)) {
    while (end < entries.size() && !isBehindEarly(end))
      ++end;
    while (end > 0 && roleOfEntry(entries[end - 1].function) != EntryRole::Pass &&
           roleOfEntry(entries[end - 1].function) != EntryRole::Copy)
      --end; // the transfers before the first other pass
  }

  TurnedStep run() {
    TurnedStep turned;
    for (size_t index = 0; index < end; ++index)
      if (!isEarly(index))
        turned.period.push_back(placed[index]);
    turned.period.append(placed.begin() + static_cast<ptrdiff_t>(end), placed.end());
    for (func::FuncOp function : {once.keep, once.assume, once.update})
      addOnce(function, turned.period);
    addEarly(turned.period);
    addOnce(once.exchange, turned.period);
    settle(turned.redo);
    for (func::FuncOp function : {once.restore, once.update})
      addOnce(function, turned.redo);
    addEarly(turned.redo);
    return turned;
  }

private:
  /// Whether an entry is a pass, and not an early one.
  bool isBehindEarly(size_t index) const {
    return roleOfEntry(entries[index].function) == EntryRole::Pass && !early.contains(passOf(entries[index]));
  }
  /// Of the entries before `end`: all but receives of what no early pass sends.
  bool isEarly(size_t index) const {
    return index < end &&
           (roleOfEntry(entries[index].function) != EntryRole::Receive || early.contains(passOf(entries[index])));
  }

  static EntryAttr ofNextStep(EntryAttr entry) {
    return EntryAttr::get(entry.getContext(), entry.getFunction(), entry.getMicroBatch(), /*step=*/1, entry.getPlaces(),
                          entry.getTurns());
  }
  static void addOnce(func::FuncOp function, SmallVector<EntryAttr> &to) {
    if (function)
      to.push_back(EntryAttr::get(function.getContext(), FlatSymbolRefAttr::get(function), /*microBatch=*/-1,
                                  /*step=*/0, /*places=*/{}, /*turns=*/{}));
  }
  void addEarly(SmallVector<EntryAttr> &to) const {
    for (size_t index = 0; index < end; ++index)
      if (isEarly(index))
        to.push_back(ofNextStep(placed[index]));
  }

  /// Ends what early passes of any rank have left under way here: in the order in which it was, or would be, begun.
  void settle(SmallVector<EntryAttr> &to) const {
    for (size_t index = 0; index < entries.size(); ++index)
      if (roleOfEntry(entries[index].function) == EntryRole::Receive && early.contains(passOf(entries[index])))
        if (func::FuncOp drop = dropFor(entries[index])) {
          if (index >= end)
            to.push_back(ofNextStep(placed[index]));
          EntryAttr received = ofNextStep(placed[index]);
          to.push_back(EntryAttr::get(received.getContext(), FlatSymbolRefAttr::get(drop), received.getMicroBatch(),
                                      received.getStep(), received.getPlaces(), received.getTurns()));
        }
    for (size_t index = end; index < entries.size(); ++index)
      if (roleOfEntry(entries[index].function) == EntryRole::Sent && early.contains(passOf(entries[index])))
        to.push_back(ofNextStep(placed[index]));
  }

  /// Null where an early pass of this rank reads what the entry receives.
  func::FuncOp dropFor(const RunEntry &receive) const {
    func::FuncOp function = receive.function;
    if (early.contains({dutyOf(function).getStage(), /*isForward=*/true, receive.microBatch}))
      return {};
    auto *reader = llvm::find_if(entries, [&](const RunEntry &entry) {
      return transfers.receiveOf(entry.function) == function && entry.microBatch == receive.microBatch;
    });
    return transfers.dropOf(reader->function);
  }

  ArrayRef<RunEntry> entries;
  const EarlyPasses &early;
  const OnceFunctions &once;
  const TransferFunctions &transfers;
  SmallVector<EntryAttr> placed;
  size_t end = 0; ///< of the early passes and their transfers
};

} // namespace

TurnedStep turnStep(ArrayRef<RunEntry> entries, const EarlyPasses &early, const OnceFunctions &once,
                    const TransferFunctions &transfers) {
  return StepTurner(entries, early, once, transfers).run();
}

} // namespace dtc
