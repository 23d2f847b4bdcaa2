// Writes down where every tensor lies; see Passes.td.
#include "passes/schedule/ArenaLayout.h"
#include "passes/schedule/MemoryPlan.h"
#include "passes/schedule/Passes.h"

#include "dialect/IR/Names.h"
#include "mlir/IR/Threading.h"

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
    offsetName = builder.getStringAttr(dtc::offsetAttr);
    offsetsName = builder.getStringAttr(dtc::offsetsAttr);
    std::deque<dtc::MemoryPlan> plans;
    SmallVector<Attribute> arenas;
    for (int64_t stage = 0; stage < dtc::stagesOf(getOperation()); ++stage) {
      FailureOr<dtc::MemoryPlan> plan = dtc::MemoryPlan::compute(getOperation(), stage);
      if (failed(plan))
        return signalPassFailure();
      arenas.push_back(describe(*plan));
      parallelForEach(&getContext(), dtc::functionsOf(getOperation(), stage),
                      [&](func::FuncOp function) { write(function, *plan); });
      plans.emplace_back(std::move(*plan));
    }
    getOperation()->setAttr(dtc::arenaAttr, arenas.size() == 1 ? arenas.front() : builder.getArrayAttr(arenas));
    for (auto [stage, plan] : llvm::enumerate(plans))
      if (limit != 0 && plan.arenaBytes() > limit) {
        reportPeak(plan, static_cast<int64_t>(stage));
        return signalPassFailure();
      }
  }

  DictionaryAttr describe(const dtc::MemoryPlan &plan) {
    Builder builder(&getContext());
    SmallVector<NamedAttribute> arena{builder.getNamedAttr("bytes", number(plan.arenaBytes())),
                                      builder.getNamedAttr("shared", number(plan.sharedBegin()))};
    SmallVector<Attribute> spaces;
    for (const dtc::PlacedSpace &space : plan.spaces())
      spaces.push_back(builder.getDenseI64ArrayAttr(
          {space.number, static_cast<int64_t>(space.base), static_cast<int64_t>(space.stride), space.places}));
    if (!spaces.empty())
      arena.push_back(builder.getNamedAttr("spaces", builder.getArrayAttr(spaces)));
    return builder.getDictionaryAttr(arena);
  }

  void reportPeak(const dtc::MemoryPlan &plan, int64_t stage) {
    InFlightDiagnostic error = dtc::stagesOf(getOperation()) == 1
                                   ? getOperation().emitError("a rank needs ")
                                   : getOperation().emitError("a rank of stage ") << stage << " of the pipeline needs ";
    error << plan.arenaBytes() << " bytes, the limit is " << uint64_t(limit)
          << "; use more ranks, a smaller micro-batch or more accumulation";
    if (FailureOr<dtc::ArenaLayout> arena = dtc::ArenaLayout::read(getOperation(), stage); succeeded(arena))
      for (auto [category, bytes] : arena->memoryUse())
        error.attachNote() << category << ": " << bytes << " bytes";
    constexpr size_t most = 10;
    SmallVector<dtc::MemoryPlan::AtThePeak> peak = plan.atThePeak();
    for (auto [bytes, value] : ArrayRef(peak).take_front(most))
      error.attachNote(value.getLoc()) << "alive at the peak: " << bytes << " bytes";
  }

  IntegerAttr number(uint64_t bytes) { return Builder(&getContext()).getI64IntegerAttr(static_cast<int64_t>(bytes)); }

  /// Attributes with one more, or another in its place; they are in the order of their names.
  static DictionaryAttr with(DictionaryAttr attributes, StringAttr name, Attribute value) {
    SmallVector<NamedAttribute> list(attributes.begin(), attributes.end());
    NamedAttribute added(name, value);
    auto *place = llvm::lower_bound(list, added);
    if (place != list.end() && place->getName() == name)
      *place = added;
    else
      list.insert(place, added);
    return DictionaryAttr::getWithSorted(name.getContext(), list);
  }

  DictionaryAttr withOffset(DictionaryAttr attributes, uint64_t offset) {
    return with(attributes, offsetName, number(offset));
  }

  void write(func::FuncOp function, dtc::MemoryPlan &plan) {
    // All at once: one at a time, each would make a list of all anew.
    SmallVector<DictionaryAttr> arguments, results;
    FunctionOpInterface interface = function;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      arguments.push_back(withOffset(interface.getArgAttrDict(i), plan.offsetOf(argumentPort(interface, i))));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      results.push_back(withOffset(interface.getResultAttrDict(i), plan.offsetOf(resultPort(interface, i))));
    function.setAllArgAttrs(arguments);
    function.setAllResultAttrs(results);
    dtc::Layouts &layouts = plan.layoutsOf(function);
    for (Operation &op : function.front().without_terminator()) {
      SmallVector<int64_t> offsets;
      bool hasRoots = false;
      for (OpResult result : op.getResults()) {
        bool isRoot = layouts.ownsBuffer(result);
        offsets.push_back(isRoot ? static_cast<int64_t>(plan.offsetOf(function, result)) : 0);
        hasRoots |= isRoot;
      }
      if (hasRoots)
        op.setDiscardableAttrs(
            with(op.getRawDictionaryAttrs(), offsetsName, DenseI64ArrayAttr::get(&getContext(), offsets)));
    }
  }

  StringAttr offsetName, offsetsName; ///< made once: there are as many offsets as tensors
};

} // namespace
