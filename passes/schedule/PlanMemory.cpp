// Writes down where every tensor lies; see Passes.td.
#include "passes/schedule/ArenaLayout.h"
#include "passes/schedule/MemoryPlan.h"
#include "passes/schedule/Passes.h"

#include "dialect/IR/Names.h"

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
    FailureOr<dtc::MemoryPlan> plan = dtc::MemoryPlan::compute(getOperation());
    if (failed(plan))
      return signalPassFailure();
    Builder builder(&getContext());
    offsetName = builder.getStringAttr(dtc::offsetAttr);
    offsetsName = builder.getStringAttr(dtc::offsetsAttr);
    getOperation()->setAttr(dtc::arenaAttr,
                            builder.getDictionaryAttr({builder.getNamedAttr("bytes", number(plan->arenaBytes())),
                                                       builder.getNamedAttr("shared", number(plan->sharedBegin()))}));
    for (auto function : getOperation().getOps<func::FuncOp>())
      write(function, *plan);
    if (limit != 0 && plan->arenaBytes() > limit) {
      reportPeak(*plan);
      signalPassFailure();
    }
  }

  void reportPeak(const dtc::MemoryPlan &plan) {
    InFlightDiagnostic error = getOperation().emitError("a rank needs ")
                               << plan.arenaBytes() << " bytes, the limit is " << uint64_t(limit)
                               << "; use more ranks, a smaller micro-batch or more accumulation";
    if (FailureOr<dtc::ArenaLayout> arena = dtc::ArenaLayout::read(getOperation()); succeeded(arena))
      for (auto [category, bytes] : arena->memoryUse())
        error.attachNote() << category << ": " << bytes << " bytes";
    constexpr size_t most = 10;
    SmallVector<const dtc::Temporary *> peak = plan.atThePeak();
    for (const dtc::Temporary *temporary : ArrayRef(peak).take_front(most))
      error.attachNote(temporary->value.getLoc()) << "alive at the peak: " << temporary->bytes << " bytes";
  }

  IntegerAttr number(uint64_t bytes) { return Builder(&getContext()).getI64IntegerAttr(static_cast<int64_t>(bytes)); }

  /// A parameter is in most functions, as an argument and as a result.
  DictionaryAttr withOffset(DictionaryAttr attributes, uint64_t offset) {
    auto [known, isNew] = withOffsets.try_emplace({attributes, offset});
    if (isNew) {
      NamedAttrList list(attributes);
      list.set(offsetName, number(offset));
      known->second = list.getDictionary(&getContext());
    }
    return known->second;
  }

  void write(func::FuncOp function, dtc::MemoryPlan &plan) {
    // All at once: one at a time, each would make a list of all anew.
    SmallVector<DictionaryAttr> arguments, results;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      arguments.push_back(withOffset(function.getArgAttrDict(i), plan.offsetOf(argumentPort(function, i))));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      results.push_back(withOffset(function.getResultAttrDict(i), plan.offsetOf(resultPort(function, i))));
    function.setAllArgAttrs(arguments);
    function.setAllResultAttrs(results);
    for (Operation &op : function.front().without_terminator()) {
      SmallVector<int64_t> offsets;
      bool hasRoots = false;
      for (OpResult result : op.getResults()) {
        bool isRoot = plan.layoutsOf(function).rootOf(result) == result;
        offsets.push_back(isRoot ? static_cast<int64_t>(plan.offsetOf(function, result)) : 0);
        hasRoots |= isRoot;
      }
      if (hasRoots)
        op.setAttr(offsetsName, DenseI64ArrayAttr::get(&getContext(), offsets));
    }
  }

  StringAttr offsetName, offsetsName; ///< made once: there are as many offsets as tensors
  DenseMap<std::pair<Attribute, uint64_t>, DictionaryAttr> withOffsets;
};

} // namespace
