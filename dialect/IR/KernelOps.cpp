// Formulas, kernels and their uses: text form and verification.
#include "dialect/IR/Ops.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace mlir::dt;

template <typename Op>
static void buildBody(OpBuilder &builder, OperationState &state, StringRef name, FunctionType type) {
  OpBuilder::InsertionGuard guard(builder);
  state.addAttribute(Op::getSymNameAttrName(state.name), builder.getStringAttr(name));
  state.addAttribute(Op::getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  Block *block = builder.createBlock(state.addRegion());
  for (Type input : type.getInputs())
    block->addArgument(input, state.location);
}

template <typename Op> static ParseResult parseBody(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> inputs, ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag,
                      std::string &) { return builder.getFunctionType(inputs, results); };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false, Op::getFunctionTypeAttrName(result.name), buildType,
      Op::getArgAttrsAttrName(result.name), Op::getResAttrsAttrName(result.name));
}

template <typename Op> static LogicalResult verifyOneBlock(Op op) {
  if (!op.getBody().hasOneBlock())
    return op.emitOpError("has ") << op.getBody().getBlocks().size() << " blocks; its body is one (C1)";
  auto yield = dyn_cast<YieldOp>(op.getBody().front().getTerminator());
  if (!yield || !llvm::equal(yield.getOperandTypes(), op.getResultTypes()))
    return op.emitOpError("must end in a dt.yield of its result types (C2)");
  if (op.getResultTypes().empty())
    return op.emitOpError("has no result, so that it would do nothing (C3)");
  return success();
}

#define DT_BODY_OP(Op)                                                                                                 \
  void Op::build(OpBuilder &builder, OperationState &state, StringRef name, FunctionType type) {                       \
    buildBody<Op>(builder, state, name, type);                                                                         \
  }                                                                                                                    \
  ParseResult Op::parse(OpAsmParser &parser, OperationState &result) { return parseBody<Op>(parser, result); }         \
  void Op::print(OpAsmPrinter &printer) {                                                                              \
    function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),          \
                                             getArgAttrsAttrName(), getResAttrsAttrName());                            \
  }                                                                                                                    \
  YieldOp Op::getYield() { return cast<YieldOp>(getBody().front().getTerminator()); }
DT_BODY_OP(KernelOp)
DT_BODY_OP(FormulaOp)
#undef DT_BODY_OP

LogicalResult KernelOp::verifyRegions() { return verifyOneBlock(*this); }

LogicalResult FormulaOp::verifyRegions() {
  if (failed(verifyOneBlock(*this)))
    return failure();
  auto isNumber = [](Type type) { return isa<RankedTensorType>(type) && cast<RankedTensorType>(type).getRank() == 0; };
  if (!llvm::all_of(getArgumentTypes(), isNumber) || !llvm::all_of(getResultTypes(), isNumber))
    return emitOpError("has type ") << getFunctionType() << "; a formula is of tensors of rank 0 (C4)";
  for (Operation &op : getBody().front().without_terminator())
    if (!isa<ElementwiseOpInterface, ConstantOp>(op))
      return op.emitOpError("is neither elementwise nor a constant, so it cannot be part of a formula (C5)");
  return success();
}

FormulaOp ApplyOp::lookUpFormula() { return SymbolTable::lookupNearestSymbolFrom<FormulaOp>(*this, getFormulaAttr()); }

LogicalResult ApplyOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto formula = symbols.lookupNearestSymbolFrom<FormulaOp>(*this, getFormulaAttr());
  if (!formula)
    return emitOpError("refers to ") << getFormulaAttr() << ", which is no dt.formula (C1)";
  auto haveElementsOf = [](TypeRange types, ArrayRef<Type> formulaTypes) {
    return llvm::equal(types, formulaTypes,
                       [](Type a, Type b) { return getElementTypeOrSelf(a) == getElementTypeOrSelf(b); });
  };
  if (!haveElementsOf(getOperandTypes(), formula.getArgumentTypes()) ||
      !haveElementsOf(getResultTypes(), formula.getResultTypes()))
    return emitOpError("has type ") << FunctionType::get(getContext(), getOperandTypes(), getResultTypes())
                                    << ", but its formula " << formula.getFunctionType() << " (C2)";
  for (Type type : llvm::concat<const Type>(llvm::to_vector(getOperandTypes()), llvm::to_vector(getResultTypes())))
    if (ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape(); !shape.empty() && shape != getShape())
      return emitOpError("has ") << type << " beside a result of shape [" << getShape() << "] (C3)";
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("refers to ") << getKernelAttr() << ", which is no dt.kernel (C1)";
  auto type = FunctionType::get(getContext(), getOperandTypes(), getResultTypes());
  if (type != kernel.getFunctionType())
    return emitOpError("has type ") << type << ", but its kernel " << kernel.getFunctionType() << " (C2)";
  for (auto random : kernel.getBody().getOps<RandomOp>())
    if (random.getSite() >= getSites().size())
      return emitOpError("gives ") << getSites().size() << " sites, but its kernel draws at number " << random.getSite()
                                   << " (C3)";
  return success();
}
