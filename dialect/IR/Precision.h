// Which operations may be computed in 16 bits; see PrecisionOpInterface and dt-choose-precision.
#pragma once

namespace mlir {
class Operation;

namespace dt {

/// The type that an operation wants for its floating-point operands under a policy that computes in 16 bits.
enum class Precision {
  Narrow,    ///< the compute type, always: this is the work that 16 bits are for
  AsOperands ///< the compute type between operations that have it; f32 where an operand is wanted in f32
};

/// Whether an operation rounds what it reads to a type of fewer bytes, and does nothing else.
bool isNarrowing(Operation *op);

} // namespace dt
} // namespace mlir
