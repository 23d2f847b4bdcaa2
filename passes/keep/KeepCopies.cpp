// Keeps parameters in the type that products compute in; see Passes.td.
#include "passes/keep/Passes.h"

#include "dialect/IR/Factors.h"
#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

namespace dtc {
#define GEN_PASS_DEF_KEEPCOPIES
#include "passes/keep/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

/// A parameter that functions convert.
struct Copied {
  BlockArgument parameter;                 ///< of one of the functions
  SmallVector<Operation *, 4> conversions; ///< in all functions; all do the same
  Type type;                               ///< of their results
  OpResult updated;                        ///< the parameter's new value, which a formula makes
};

struct KeepCopies : dtc::impl::KeepCopiesBase<KeepCopies> {
  void runOnOperation() override {
    auto update = getOperation().lookupSymbol<func::FuncOp>(function::update);
    if (!update) {
      getOperation().emitError("has no function @") << function::update;
      return signalPassFailure();
    }
    if (getOperation().lookupSymbol(function::refresh)) {
      getOperation().emitError("has a function @") << function::refresh << " already";
      return signalPassFailure();
    }
    collect(update);
    findUpdates(update);
    if (copies.empty())
      return;
    buildRefresh();
    write(update);
    for (auto &[name, copied] : copies)
      read(copied);
  }

  /// In the order in which the first function takes the parameters: copies are in memory in the same order.
  void collect(func::FuncOp update) {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (BlockArgument argument : function.getArguments())
        if (PortAttr port = portOf(argument); function != update && port && port.getKind() == PortKind::Parameter)
          for (Operation *user : argument.getUsers())
            if (isNarrowing(user)) {
              Copied &copied =
                  copies.insert({port.getName(), {argument, {}, user->getResult(0).getType(), {}}}).first->second;
              copied.conversions.push_back(user);
            }
    // All functions have one compute type. If they had several, a copy would serve only some readers.
    copies.remove_if([](auto &entry) {
      return llvm::any_of(entry.second.conversions, [&](Operation *conversion) {
        return conversion->getResult(0).getType() != entry.second.type;
      });
    });
  }

  /// A parameter that the update moves after its formula, as with zero1, would need a launch of its own to be
  /// converted: such parameters stay as they are.
  void findUpdates(func::FuncOp update) {
    for (OpOperand &result : update.front().getTerminator()->getOpOperands()) {
      PortAttr port = resultPort(update, result.getOperandNumber());
      auto found = port.getKind() == PortKind::Parameter ? copies.find(port.getName()) : copies.end();
      if (found != copies.end() && result.get().getDefiningOp<ApplyOp>() &&
          result.get().getType() == found->second.parameter.getType())
        found->second.updated = cast<OpResult>(result.get());
    }
    copies.remove_if([](auto &entry) { return !entry.second.updated; });
  }

  static PortAttr portOfCopy(const Copied &copied) {
    PortAttr copy = portOf(copied.parameter).withKind(PortKind::Copy);
    if (!copy.getWhole())
      return copy;
    Type element = getElementTypeOrSelf(copied.type);
    return copy.placedAs(copy.getComputed(), copy.getStored(), copy.getWhole().clone(element));
  }

  /// The same conversion of another value.
  static Value convert(OpBuilder &builder, const Copied &copied, Value value) {
    auto shape = cast<RankedTensorType>(value.getType());
    return cloneOnto(copied.conversions.front(), builder, value, shape.clone(getElementTypeOrSelf(copied.type)))
        ->getResult(0);
  }

  /// @refresh: parameters -> copies.
  void buildRefresh() {
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    auto refresh = func::FuncOp::create(builder, NameLoc::get(builder.getStringAttr(function::refresh)),
                                        function::refresh, builder.getFunctionType({}, {}));
    builder.setInsertionPointToEnd(refresh.addEntryBlock());
    SmallVector<Value> made;
    SmallVector<DictionaryAttr> attributes;
    for (auto &[name, copied] : copies) {
      unsigned index = refresh.getNumArguments();
      PortAttr port = portOf(copied.parameter);
      (void)refresh.insertArgument(
          index, copied.parameter.getType(),
          portAttributes(port.isPlaced() ? port.placedAs(port.getStored(), port.getWhole()) : port),
          NameLoc::get(name));
      made.push_back(convert(builder, copied, refresh.getArgument(index)));
      made.back().getDefiningOp()->setAttr(directionAttr, DirectionAttr::get(&getContext(), Direction::Update));
      attributes.push_back(portAttributes(portOfCopy(copied)));
    }
    func::ReturnOp::create(builder, refresh.getLoc(), made);
    refresh.setFunctionType(builder.getFunctionType(refresh.getArgumentTypes(), ValueRange(made).getTypes()));
    refresh.setAllResultAttrs(attributes);
  }

  /// Functions take the copy instead of converting the parameter.
  static void read(const Copied &copied) {
    DenseMap<Operation *, Value> taken; // by function
    for (Operation *conversion : copied.conversions) {
      auto function = conversion->getParentOfType<func::FuncOp>();
      Value &copy = taken[function];
      if (!copy) {
        unsigned index = function.getNumArguments();
        (void)function.insertArgument(index, copied.type, portAttributes(portOfCopy(copied)),
                                      NameLoc::get(portOf(copied.parameter).getName()));
        copy = function.getArgument(index);
      }
      conversion->getResult(0).replaceAllUsesWith(copy);
    }
    for (Operation *conversion : copied.conversions)
      conversion->erase();
  }

  /// The update's formulas yield the copy along with the parameter. It is made from the parameter that was chosen: from
  /// the old one where the update does not apply.
  void write(func::FuncOp update) {
    Operation *end = update.front().getTerminator();
    SmallVector<Type> types(update.getResultTypes());
    SmallVector<DictionaryAttr> attributes;
    update.getAllResultAttrs(attributes);
    attributes.resize(types.size(), DictionaryAttr::get(&getContext()));
    for (auto &[name, copied] : copies) {
      auto apply = cast<ApplyOp>(copied.updated.getOwner());
      FormulaOp formula = formulaWithCopy(apply, copied);
      SmallVector<Type> made(apply.getResultTypes());
      made.push_back(copied.type);
      OpBuilder builder(apply);
      auto both = ApplyOp::create(builder, apply.getLoc(), made, FlatSymbolRefAttr::get(formula.getSymNameAttr()),
                                  apply.getOperands());
      both->setDiscardableAttrs(apply->getDiscardableAttrDictionary());
      apply->replaceAllUsesWith(both.getResults().drop_back());
      apply->erase();
      end->insertOperands(end->getNumOperands(), both.getResults().back());
      types.push_back(copied.type);
      attributes.push_back(portAttributes(portOfCopy(copied)));
    }
    update.setFunctionType(FunctionType::get(&getContext(), update.getArgumentTypes(), types));
    update.setAllResultAttrs(attributes);
  }

  FormulaOp formulaWithCopy(ApplyOp apply, const Copied &copied) {
    FormulaOp &known = formulas[{apply.getFormulaAttr(), copied.updated.getResultNumber()}];
    if (known)
      return known;
    FormulaOp original = apply.lookUpFormula();
    OpBuilder builder(original);
    known = cast<FormulaOp>(builder.clone(*original));
    known.setName((original.getName() + "_with_copy").str());
    YieldOp yield = known.getYield();
    builder.setInsertionPoint(yield);
    Value copy = convert(builder, copied, yield.getOperand(copied.updated.getResultNumber()));
    copy.getDefiningOp()->setDiscardableAttrs(DictionaryAttr::get(&getContext()));
    copy.getDefiningOp()->setLoc(original.getLoc());
    yield->insertOperands(yield->getNumOperands(), copy);
    known.setFunctionType(builder.getFunctionType(known.getArgumentTypes(), yield.getOperandTypes()));
    return known;
  }

  llvm::MapVector<StringAttr, Copied> copies;                   ///< by the parameter's name
  DenseMap<std::pair<Attribute, unsigned>, FormulaOp> formulas; ///< by the original formula and the parameter's result
};

} // namespace
