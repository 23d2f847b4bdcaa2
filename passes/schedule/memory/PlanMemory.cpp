// Records where every tensor is; see Passes.td.
#include "passes/analysis/Stages.h"
#include "passes/schedule/Passes.h"
#include "passes/schedule/memory/ArenaLayout.h"
#include "passes/schedule/memory/MemoryPlan.h"

#include "dialect/IR/Names.h"
#include "runtime/abi/timetables.h"
#include "timing/timetables/check.h"

#include <deque>

namespace dtc {
#define GEN_PASS_DEF_PLANMEMORY
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

struct PlanMemory : dtc::impl::PlanMemoryBase<PlanMemory> {
  using PlanMemoryBase::PlanMemoryBase;

  void runOnOperation() override {
    Builder builder(&getContext());
    dtc::Kernels kernels(getOperation());
    if (failed(kernels.describeAll()))
      return signalPassFailure();
    std::deque<dtc::MemoryPlan> plans;
    SmallVector<Attribute> arenas;
    for (auto [role, functions] : llvm::enumerate(dtc::functionsOfRoles(getOperation()))) {
      FailureOr<dtc::MemoryPlan> plan =
          dtc::MemoryPlan::compute(getOperation(), kernels, static_cast<int64_t>(role), functions);
      if (failed(plan))
        return signalPassFailure();
      arenas.push_back(describe(*plan));
      for (func::FuncOp function : functions)
        write(function, *plan);
      plans.emplace_back(std::move(*plan));
    }
    getOperation()->setAttr(dtc::arenaAttr, arenas.size() == 1 ? arenas.front() : builder.getArrayAttr(arenas));
    for (auto [role, plan] : llvm::enumerate(plans))
      if (limit != 0 && plan.arenaBytes() > limit) {
        reportPeak(plan, static_cast<int64_t>(role));
        return signalPassFailure();
      }
  }

  DictionaryAttr describe(const dtc::MemoryPlan &plan) {
    Builder builder(&getContext());
    SmallVector<NamedAttribute> arena{builder.getNamedAttr("bytes", number(plan.arenaBytes())),
                                      builder.getNamedAttr("shared", number(plan.sharedBegin()))};
    if (plan.hostBytes() > 0)
      arena.push_back(builder.getNamedAttr("host", number(plan.hostBytes())));
    SmallVector<Attribute> spaces;
    for (const dtc::PlacedSpace &space : plan.spaces())
      spaces.push_back(builder.getDenseI64ArrayAttr(
          {space.number, static_cast<int64_t>(space.base), static_cast<int64_t>(space.stride), space.places}));
    if (!spaces.empty())
      arena.push_back(builder.getNamedAttr("spaces", builder.getArrayAttr(spaces)));
    return builder.getDictionaryAttr(arena);
  }

  void reportPeak(const dtc::MemoryPlan &plan, int64_t role) {
    InFlightDiagnostic error = getOperation().emitError("a rank ");
    if (dtc::rolesOf(getOperation()) > 1)
      error << "of " << dtc::nameOfRole(getOperation(), role) << " of the pipeline ";
    error << "needs " << plan.arenaBytes() << " bytes, the limit is " << uint64_t(limit)
          << "; use more ranks, a smaller micro-batch or more accumulation";
    if (FailureOr<dtc::ArenaLayout> arena = dtc::ArenaLayout::read(getOperation(), role); succeeded(arena))
      for (auto [category, bytes] : arena->memoryUse())
        error.attachNote() << category << ": " << bytes << " bytes";
    noteMostStashes(error, role);
    constexpr size_t most = 10;
    SmallVector<dtc::MemoryPlan::AtThePeak> peak = plan.atThePeak();
    for (auto [bytes, value] : ArrayRef(peak).take_front(most))
      error.attachNote(value.getLoc()) << "alive at the peak: " << bytes << " bytes";
  }

  /// The entries of the rank's timetable at which the most micro-batches are under way; of a pipeline alone.
  void noteMostStashes(InFlightDiagnostic &error, int64_t role) {
    Passes passes = passesOf(role);
    dtc::timetables::StashPeak peak = dtc::timetables::stashPeak(passes.entries, passes.held);
    if (dtc::rolesOf(getOperation()) == 1 || peak.stashes == 0)
      return;
    constexpr size_t shown = 4;
    Diagnostic &note = error.attachNote() << "it holds the most stashes, " << peak.stashes << ", at ";
    ArrayRef<dtc::timetables::Entry> entries(peak.entries);
    llvm::interleaveComma(entries.take_front(shown), note,
                          [&](const dtc::timetables::Entry &entry) { note << dtc::timetables::describe(entry); });
    if (entries.size() > shown)
      note << " and " << entries.size() - shown << (entries.size() == shown + 1 ? " more entry" : " more entries");
    note << " of its timetable";
  }

  struct Passes {
    std::vector<dtc::timetables::Entry> entries;
    int64_t held = 0; ///< stashes before the first: where steps overlap, of forward passes that are ahead
  };

  /// The passes of a step, as the rank's timetable has them.
  Passes passesOf(int64_t role) {
    Passes passes;
    auto timetables = getOperation()->getAttrOfType<ArrayAttr>(module_attr::timetables);
    if (!timetables)
      return passes;
    for (auto timetable : timetables.getAsRange<TimetableAttr>()) {
      if (timetable.getRank() != role || timetable.getName().getValue() != StringRef(dtc::abi::stepTimetable))
        continue;
      for (EntryAttr entry : timetable.getEntries())
        if (auto function = getOperation().lookupSymbol<func::FuncOp>(entry.getFunction()))
          if (std::optional<dtc::timetables::Kind> kind = kindOf(dutyOf(function).getTask())) {
            passes.entries.push_back({.kind = *kind,
                                      .stage = static_cast<int32_t>(dutyOf(function).getStage()),
                                      .microBatch = static_cast<int32_t>(entry.getMicroBatch())});
            if (*kind == dtc::timetables::Kind::Forward)
              passes.held += entry.getStep();
            else if (dtc::timetables::givesWeightGradient(*kind))
              passes.held -= entry.getStep();
          }
    }
    return passes;
  }

  static std::optional<dtc::timetables::Kind> kindOf(Task task) {
    using dtc::timetables::Kind;
    switch (task) {
    case Task::Forward:
      return Kind::Forward;
    case Task::Backward:
      return Kind::Backward;
    case Task::InputGradients:
      return Kind::BackwardInput;
    case Task::WeightGradients:
      return Kind::BackwardWeight;
    default:
      return std::nullopt;
    }
  }

  IntegerAttr number(uint64_t bytes) { return Builder(&getContext()).getI64IntegerAttr(static_cast<int64_t>(bytes)); }

  static void write(func::FuncOp function, dtc::MemoryPlan &plan) {
    SmallVector<int64_t> arguments, results, values;
    auto offsetOf = [&](PortAttr port) { return static_cast<int64_t>(plan.offsetOf(port)); };
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      arguments.push_back(offsetOf(argumentPort(function, i)));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      results.push_back(offsetOf(resultPort(function, i)));
    dtc::Layouts &layouts = plan.layoutsOf(function);
    for (Operation &op : function.front().without_terminator())
      for (OpResult result : op.getResults())
        if (layouts.ownsBuffer(result))
          values.push_back(static_cast<int64_t>(plan.offsetOf(function, result)));
    dtc::FunctionOffsets{arguments, results, values}.writeTo(function);
  }
};

} // namespace
