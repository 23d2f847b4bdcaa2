// Registration of the dialect, and its constants.
#include "dialect/IR/Ops.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::dt;

#include "dialect/IR/Dialect.cpp.inc"
#include "dialect/IR/Interfaces.cpp.inc"

#define GET_OP_CLASSES
#include "dialect/IR/Ops.cpp.inc"

void DTDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialect/IR/Ops.cpp.inc"
      >();
}

bool mlir::dt::isFusible(Operation *op) {
  auto fusible = dyn_cast<FusibleOpInterface>(op);
  return fusible ? fusible.canBeFused() : isa<ElementwiseOpInterface>(op);
}

Operation *DTDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  if (auto elements = dyn_cast<ElementsAttr>(value); elements && elements.getType() == type)
    return ConstantOp::create(builder, loc, type, elements);
  return nullptr;
}
