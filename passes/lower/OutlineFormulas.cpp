// Turns each application of a formula into the launch of a kernel; see Passes.td for the idea.
#include "passes/lower/Passes.h"

#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"

namespace dtc {
#define GEN_PASS_DEF_OUTLINEFORMULAS
#include "passes/lower/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

/// A kernel's body under construction: a formula's operations on tensors of one shape.
class Spreading {
public:
  Spreading(KernelOp kernel, ArrayRef<int64_t> shape)
      : builder(OpBuilder::atBlockEnd(&kernel.getBody().front())), loc(kernel.getLoc()), shape(shape) {}

  void bind(Value number, Value tensor) {
    bool isWhole = cast<RankedTensorType>(tensor.getType()).getShape() == shape;
    tensors.map(number, isWhole ? tensor : buildSpread(builder, loc, tensor, shape));
  }

  void add(Operation &op) {
    SmallVector<Value> operands = llvm::map_to_vector(op.getOperands(), [&](Value v) { return tensors.lookup(v); });
    Type type = spread(op.getResult(0).getType());
    Operation *clone = cast<FactorOpInterface>(op).buildLocal(builder, operands, type, {}, {});
    tensors.map(op.getResult(0), clone->getResult(0));
    clone->setDiscardableAttrs(DictionaryAttr::get(op.getContext()));
  }

  void yield(ValueRange numbers) {
    YieldOp::create(builder, loc, llvm::map_to_vector(numbers, [&](Value v) { return tensors.lookup(v); }));
  }

private:
  RankedTensorType spread(Type type) const {
    return RankedTensorType::get(shape, cast<RankedTensorType>(type).getElementType());
  }

  OpBuilder builder;
  Location loc;
  ArrayRef<int64_t> shape;
  IRMapping tensors; ///< the formula's numbers -> tensors
};

struct OutlineFormulas : dtc::impl::OutlineFormulasBase<OutlineFormulas> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (ApplyOp apply : llvm::make_early_inc_range(function.getBody().getOps<ApplyOp>())) {
        OpBuilder builder(apply);
        auto launch = LaunchOp::create(builder, apply.getLoc(), apply.getResultTypes(),
                                       FlatSymbolRefAttr::get(kernelOf(apply, symbols)), apply.getOperands(),
                                       builder.getDenseI64ArrayAttr({}));
        launch->setDiscardableAttrs(apply->getDiscardableAttrDictionary());
        apply->replaceAllUsesWith(launch);
        apply->erase();
      }
    for (FormulaOp formula : llvm::make_early_inc_range(getOperation().getOps<FormulaOp>()))
      symbols.erase(formula);
  }

  StringAttr kernelOf(ApplyOp apply, SymbolTable &symbols) {
    auto type = FunctionType::get(&getContext(), apply.getOperandTypes(), apply.getResultTypes());
    StringAttr &name = kernels[{apply.getFormulaAttr(), type}];
    if (!name)
      name = symbols.insert(outline(apply, symbols.lookup<FormulaOp>(apply.getFormula()), type));
    return name;
  }

  KernelOp outline(ApplyOp apply, FormulaOp formula, FunctionType type) {
    OpBuilder builder(&getContext());
    auto kernel = KernelOp::create(builder, formula.getLoc(), (apply.getFormula() + "_0").str(), type);
    Spreading body(kernel, apply.getShape());
    for (auto [number, tensor] : llvm::zip_equal(formula.getArguments(), kernel.getArguments()))
      body.bind(number, tensor);
    for (Operation &op : formula.getBody().front().without_terminator())
      body.add(op);
    body.yield(formula.getYield().getOperands());
    return kernel;
  }

  DenseMap<std::pair<Attribute, Type>, StringAttr> kernels; ///< by formula and type
};

} // namespace
