// The contract of the phase "what"; the numbers are those of the pass's description.
#include "passes/differentiate/Passes.h"
#include "passes/differentiate/Signature.h"

#include "mlir/IR/Threading.h"

namespace dtc {
#define GEN_PASS_DEF_VERIFYWHAT
#include "passes/differentiate/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace dtc;

namespace {

struct VerifyWhat : dtc::impl::VerifyWhatBase<VerifyWhat> {
  void runOnOperation() override {
    if (failed(checkModule()))
      return signalPassFailure();
    auto functions = llvm::to_vector(getOperation().getOps<func::FuncOp>());
    auto ports = [&] { return checkAll(functions, [&](func::FuncOp function) { return checkPorts(function); }); };
    auto bodies = [&] { return checkAll(functions, [&](func::FuncOp function) { return checkBody(function); }); };
    if (failed(failableParallelForEachN(&getContext(), 0, 2, [&](size_t n) { return n == 0 ? ports() : bodies(); })))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

  static LogicalResult checkAll(ArrayRef<func::FuncOp> functions, function_ref<LogicalResult(func::FuncOp)> check) {
    return success(llvm::all_of(functions, [&](func::FuncOp function) { return succeeded(check(function)); }));
  }

  LogicalResult checkModule() {
    ModuleOp module = getOperation();
    for (StringRef name : {dt::module_attr::model, dt::module_attr::symbols, dt::module_attr::parameters})
      if (!module->hasAttr(name))
        return module.emitError("W1: has no attribute ") << name;
    auto parameters = module->getAttrOfType<ArrayAttr>(dt::module_attr::parameters);
    if (!parameters || !llvm::all_of(parameters, llvm::IsaPred<dt::ParamAttr>))
      return module.emitError("W1: dt.parameters must be an array of #dt.param");
    shapes.clear();
    tensors.clear();
    for (auto parameter : parameters.getAsRange<dt::ParamAttr>())
      shapes[parameter.getName()] = parameter.getLogicalShape();
    bool generates = module.lookupSymbol<func::FuncOp>(dt::function::prompt) != nullptr;
    for (StringRef name : {dt::function::micro, dt::function::reduce, dt::function::update, dt::function::eval})
      if (!generates && !module.lookupSymbol<func::FuncOp>(name))
        return module.emitError("W2: has no function @") << name;
    if (module.lookupSymbol(dt::function::loss))
      return module.emitError("W2: still has @loss");
    return success();
  }

  LogicalResult checkPorts(func::FuncOp function) {
    DenseSet<dt::PortIdentity> seen;
    for (auto [index, type] : llvm::enumerate(function.getArgumentTypes()))
      if (failed(checkPort(function, "argument", index, type, dt::argumentPort(function, index), seen)))
        return failure();
    seen.clear();
    for (auto [index, type] : llvm::enumerate(function.getResultTypes()))
      if (failed(checkPort(function, "result", index, type, dt::resultPort(function, index), seen)))
        return failure();
    return success();
  }

  LogicalResult checkPort(func::FuncOp function, StringRef what, unsigned index, Type type, dt::PortAttr port,
                          DenseSet<dt::PortIdentity> &seen) {
    auto fail = [&](StringRef rule) { return function.emitError(rule) << ": " << what << " #" << index << " "; };
    if (!port)
      return fail("W3") << "lacks " << dt::portAttr;
    if (!seen.insert(port.identity()).second)
      return fail("W3") << "is the second " << port.describe();
    auto [first, known] = tensors.try_emplace(port.identity(), port, type).first->second;
    if (port.getKind() == dt::PortKind::Input && !port.getSource())
      return fail("W7") << "(" << port.describe() << ") does not say its source: from tokens, ...";
    if (port.getSource() != first.getSource())
      return fail("W7") << "(" << port.describe() << ") is from " << port.getSource() << ", elsewhere from "
                        << first.getSource();
    if (known != type)
      return fail("W3") << "(" << port.describe() << ") has type " << type << ", elsewhere " << known;
    if (port.getMayBePartial() != first.getMayBePartial())
      return fail("W3") << "(" << port.describe() << ") may " << (first.getMayBePartial() ? "not " : "")
                        << "be partial, elsewhere it may" << (first.getMayBePartial() ? "" : " not");
    if (!port.isOfParameter())
      return success();
    auto shape = shapes.find(port.getName());
    if (shape == shapes.end())
      return fail("W4") << "(" << port.describe() << ") is of no parameter in dt.parameters";
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || tensor.getShape() != ArrayRef<int64_t>(shape->second))
      return fail("W4") << "(" << port.describe() << ") has type " << type
                        << ", which is not the parameter's logical shape";
    return success();
  }

  LogicalResult checkBody(func::FuncOp function) {
    if (!function.getBody().hasOneBlock())
      return function.emitError("W5: must have one block");
    for (Operation &op : function.getBody().front().without_terminator()) {
      if (!isa<dt::DTDialect>(op.getDialect()) || op.getNumRegions() != 0)
        return op.emitOpError("W5: only plain dt operations belong here");
      if (isa<dt::DecomposableOpInterface>(op))
        return op.emitOpError("W6: has not been decomposed");
      if (!isa<dt::FactorOpInterface>(op))
        return op.emitOpError("W6: does not implement FactorOpInterface");
    }
    return success();
  }

  llvm::StringMap<SmallVector<int64_t>> shapes;                      ///< each parameter's logical shape
  DenseMap<dt::PortIdentity, std::pair<dt::PortAttr, Type>> tensors; ///< as the first function that has them says
};

} // namespace
