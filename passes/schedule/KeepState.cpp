// Keeps the state from before an update, which may have to be undone; see Passes.td.
#include "passes/schedule/Passes.h"

#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/abi/timetables.h"

namespace dtc {
#define GEN_PASS_DEF_KEEPSTATE
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

/// A tensor of the state that a function returns.
struct StateTensor {
  Type type;
  DictionaryAttr attributes; ///< of its port
  Location loc;

  PortAttr port() const { return cast<PortAttr>(attributes.get(portAttr)); }
  DictionaryAttr kept() const {
    return portAttributes(PortAttr::get(port().getContext(), PortKind::Kept, port().describe()));
  }
};

struct KeepState : dtc::impl::KeepStateBase<KeepState> {
  void runOnOperation() override {
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      DutyAttr duty = dutyOf(function);
      if (!duty || duty.getTask() != Task::Once || duty.getTimetable() != StringRef(dtc::abi::stepTimetable))
        continue;
      SmallVector<StateTensor> state = stateOf(function);
      if (state.empty())
        continue;
      copy(function, ".restore", state, /*keeps=*/false);
      copy(function, ".keep", state, /*keeps=*/true);
    }
  }

private:
  static SmallVector<StateTensor> stateOf(func::FuncOp function) {
    SmallVector<StateTensor> state;
    for (auto [index, type] : llvm::enumerate(function.getResultTypes()))
      if (resultPort(function, index).isState())
        state.push_back({type, function.getResultAttrDict(index), NameLoc::get(resultPort(function, index).getName())});
    return state;
  }

  /// A function behind `function` that copies the state to where it is kept, or back.
  static void copy(func::FuncOp function, StringRef what, ArrayRef<StateTensor> state, bool keeps) {
    OpBuilder builder(function.getContext());
    builder.setInsertionPointAfter(function);
    auto types = llvm::map_to_vector(state, [](const StateTensor &each) { return each.type; });
    std::string name = (function.getName() + what).str();
    auto made = func::FuncOp::create(builder, NameLoc::get(builder.getStringAttr(name)), name,
                                     builder.getFunctionType(types, types));
    made->setAttr(dutyAttr, dutyOf(function));
    made.addEntryBlock();
    builder.setInsertionPointToEnd(&made.front());
    SmallVector<DictionaryAttr> from, to;
    SmallVector<Value> copies;
    for (auto [index, each] : llvm::enumerate(state)) {
      from.push_back(keeps ? each.attributes : each.kept());
      to.push_back(keeps ? each.kept() : each.attributes);
      auto copied = CopyOp::create(builder, each.loc, made.getArgument(index));
      mark(copied, {{}, DirectionAttr::get(builder.getContext(), Direction::Update)});
      copies.push_back(copied);
    }
    func::ReturnOp::create(builder, made.getLoc(), copies);
    made.setAllArgAttrs(from);
    made.setAllResultAttrs(to);
  }
};

} // namespace
