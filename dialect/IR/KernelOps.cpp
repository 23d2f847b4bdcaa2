// Kernels and their launches: text form and verification.
#include "dialect/IR/Ops.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace mlir::dt;

void KernelOp::build(OpBuilder &builder, OperationState &state, StringRef name, FunctionType type) {
  OpBuilder::InsertionGuard guard(builder);
  state.addAttribute(getSymNameAttrName(state.name), builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  Block *block = builder.createBlock(state.addRegion());
  for (Type input : type.getInputs())
    block->addArgument(input, state.location);
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> inputs, ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag,
                      std::string &) { return builder.getFunctionType(inputs, results); };
  return function_interface_impl::parseFunctionOp(parser, result, /*allowVariadic=*/false,
                                                  getFunctionTypeAttrName(result.name), buildType,
                                                  getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KernelOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
                                           getArgAttrsAttrName(), getResAttrsAttrName());
}

YieldOp KernelOp::getYield() { return cast<YieldOp>(getBody().front().getTerminator()); }

LogicalResult KernelOp::verifyRegions() {
  if (!getBody().hasOneBlock())
    return emitOpError("has ") << getBody().getBlocks().size() << " blocks; its body is one (C1)";
  auto yield = dyn_cast<YieldOp>(getBody().front().getTerminator());
  if (!yield || !llvm::equal(yield.getOperandTypes(), getResultTypes()))
    return emitOpError("must end in a dt.yield of its result types (C2)");
  if (getResultTypes().empty())
    return emitOpError("has no result, so that it would do nothing (C3)");
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
