// The operations and interfaces of the dt dialect.
#pragma once

#include "dialect/IR/Attributes.h"
#include "dialect/IR/Factors.h"
#include "dialect/IR/Library.h"
#include "dialect/IR/Precision.h"
#include "dialect/reference/HostTensor.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialect/IR/Interfaces.h.inc"

namespace mlir::dt {

/// The three parts of an einsum specification "ab,bc->ac".
struct ContractSpec {
  StringRef lhs, rhs, out;
};
std::optional<ContractSpec> parseContractSpec(StringRef spec);

/// The trait of operations that are no ElementwiseOpInterface and may still share a kernel with their neighbours.
template <typename ConcreteOp> class Fusible : public OpTrait::TraitBase<ConcreteOp, Fusible> {};

/// Whether an operation is computed element by element, or sums elements: what is cheap to do together with its
/// neighbours, or once more. Constants are when they are splats.
bool isFusible(Operation *op);

/// The mesh of the module around `op`, or null.
MeshAttr getMesh(Operation *op);

} // namespace mlir::dt

#define GET_OP_CLASSES
#include "dialect/IR/Ops.h.inc"
