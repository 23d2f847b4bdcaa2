// The operations and interfaces of the dt dialect.
#pragma once

#include "dialect/IR/Attributes.h"
#include "dialect/IR/Factors.h"
#include "dialect/IR/HostTensor.h"
#include "dialect/IR/KernelCode.h"
#include "dialect/IR/Library.h"
#include "dialect/IR/Precision.h"
#include "dialect/IR/Work.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "runtime/abi/epilogue.h"

namespace mlir::dt {
/// 0, 1, ... for the dimensions of a tensor.
SmallVector<int64_t> identityDims(Value tensor);
} // namespace mlir::dt

#include "dialect/IR/Interfaces.h.inc"

namespace mlir::dt {

struct Reduction;

/// The three parts of an einsum specification "ab,bc->ac".
struct ContractSpec {
  StringRef lhs, rhs, out;
};
std::optional<ContractSpec> parseContractSpec(StringRef spec);

/// What reads the result is recomputed, so it is computed late and joins no earlier kernel.
template <typename ConcreteOp> class Waits : public OpTrait::TraitBase<ConcreteOp, Waits> {};
template <typename ConcreteOp> class SeparatesKernels : public OpTrait::TraitBase<ConcreteOp, SeparatesKernels> {};

/// Whether an operation is computed element by element, or sums elements: what is cheap to do together with its
/// neighbours, or to repeat. Constants are when they are splats.
bool isFusible(Operation *op);

/// The same tensor in a buffer of its own.
Value buildCopy(OpBuilder &builder, Location loc, Value value);
/// A tensor of this shape that holds a number, a tensor of rank 0, at every index.
Value buildSpread(OpBuilder &builder, Location loc, Value number, ArrayRef<int64_t> shape);

/// `value` padded with zeros at the end of a dimension, to `size` elements along it.
Value buildLonger(OpBuilder &builder, Location loc, Value value, int64_t dim, int64_t size);
/// The first elements along each dimension, as many as `type` has.
Value buildFirst(OpBuilder &builder, Location loc, Value value, RankedTensorType type);

/// Where the elements of a tensor end along a dimension; what follows is padding.
struct Extent {
  int64_t dim, size;
};
/// `value` with the identity of a reduction in its padding, so that the reduction ignores it. Where `value` is a piece,
/// the extents are those of the whole tensor, and `sharding` says how that is split.
Value buildNeutralPadding(OpBuilder &builder, Location loc, Value value, ArrayRef<Extent> extents,
                          const Reduction &reduction, ShardingAttr sharding = {});

/// The mesh of the module around `op`, or null.
MeshAttr getMesh(Operation *op);

} // namespace mlir::dt

#define GET_OP_CLASSES
#include "dialect/IR/Ops.h.inc"
