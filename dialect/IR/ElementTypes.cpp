// The compiler's access to the table of element types.
#include "dialect/IR/ElementTypes.h"

#include "dialect/IR/Attributes.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace dtc;

static Type withoutFuture(Type type) {
  auto future = dyn_cast<dt::FutureType>(type);
  return future ? Type(future.getValue()) : type;
}

/// As getElementTypeOrSelf, but looks for tensors first: nearly all queries are about them.
static Type elementOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? tensor.getElementType() : getElementTypeOrSelf(withoutFuture(type));
}

const abi::ElementType &dt::elementTypeOf(Type type) {
  Type element = elementOf(type);
  if (element.isF32())
    return abi::elementType(abi::F32);
  if (element.isBF16())
    return abi::elementType(abi::BF16);
  if (element.isF16())
    return abi::elementType(abi::F16);
  if (element.isInteger(1))
    return abi::elementType(abi::MASK);
  if (element.isInteger(8))
    return abi::elementType(abi::I8);
  if (element.isInteger(32))
    return abi::elementType(abi::I32);
  llvm::report_fatal_error("an element type that OpBase.td does not allow");
}

uint64_t dt::bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(withoutFuture(type));
  return abi::bytesOf(elementTypeOf(tensor).type, tensor.getNumElements());
}

ArrayRef<int64_t> dt::shapeOf(Type type) { return cast<RankedTensorType>(withoutFuture(type)).getShape(); }
