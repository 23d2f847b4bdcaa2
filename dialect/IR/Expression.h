// Formulas as C++ expressions: gradients, decompositions and optimizers read as they do in the literature.
//
//   Expr x(builder, loc, value);
//   Value y = x * (1.0 - square(tanh(x)));
//
// Every operator builds one operation. A number next to an Expr becomes a splat constant of its type; nothing
// broadcasts implicitly.
#pragma once

#include "dialect/IR/Ops.h"

namespace mlir::dt {

class Expr {
public:
  Expr(OpBuilder &builder, Location loc, Value value) : builder(&builder), loc(loc), value(value) {}

  operator Value() const { return value; }
  RankedTensorType getType() const { return cast<RankedTensorType>(value.getType()); }
  ArrayRef<int64_t> getShape() const { return getType().getShape(); }
  int64_t getRank() const { return getType().getRank(); }
  OpBuilder &getBuilder() const { return *builder; }
  Location getLoc() const { return loc; }

  /// An expression for another value, with the same builder and location.
  Expr with(Value other) const { return Expr(*builder, loc, other); }
  /// A splat of this type.
  Expr splat(double number) const { return with(ConstantOp::create(*builder, loc, getType(), number)); }
  template <typename Op, typename... Operands> Expr apply(Operands &&...operands) const {
    return with(Op::create(*builder, loc, std::forward<Operands>(operands)...)->getResult(0));
  }
  /// This type with another element type.
  RankedTensorType typeWith(Type element) const { return RankedTensorType::get(getShape(), element); }

  /// This value with elements of another type; itself if it already has that type.
  Expr as(Type element) const {
    return getType().getElementType() == element ? *this : apply<ConvertOp>(typeWith(element), value);
  }
  /// Converted to f32 if it has fewer bits, so that formulas of several steps round once, at their end.
  Expr widened() const {
    Type element = getType().getElementType();
    return isa<FloatType>(element) ? as(builder->getF32Type()) : *this;
  }

  /// Sum or maximum over `dims`, which disappear.
  Expr sum(ArrayRef<int64_t> dims) const { return apply<ReduceOp>(ReductionKind::Sum, value, dims); }
  Expr max(ArrayRef<int64_t> dims) const { return apply<ReduceOp>(ReductionKind::Max, value, dims); }
  /// Repeats this value along the dimensions of `shape` that `dims` does not name.
  Expr broadcast(ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) const {
    return apply<BroadcastOp>(RankedTensorType::get(shape, getType().getElementType()), value, dims);
  }
  Expr compare(CompareDirection direction, Expr other) const {
    return apply<CompareOp>(typeWith(builder->getI1Type()), direction, value, other);
  }
  /// `onTrue` where this mask holds, `onFalse` elsewhere.
  Expr select(Expr onTrue, Expr onFalse) const { return apply<SelectOp>(value, onTrue, onFalse); }

private:
  OpBuilder *builder;
  Location loc;
  Value value;
};

inline Expr operator+(Expr a, Expr b) { return a.apply<AddOp>(a, b); }
inline Expr operator-(Expr a, Expr b) { return a.apply<SubOp>(a, b); }
inline Expr operator*(Expr a, Expr b) { return a.apply<MulOp>(a, b); }
inline Expr operator/(Expr a, Expr b) { return a.apply<DivOp>(a, b); }
inline Expr operator-(Expr a) { return a.apply<NegOp>(Value(a)); }

inline Expr operator+(Expr a, double b) { return a + a.splat(b); }
inline Expr operator-(Expr a, double b) { return a - a.splat(b); }
inline Expr operator*(Expr a, double b) { return a * a.splat(b); }
inline Expr operator/(Expr a, double b) { return a / a.splat(b); }
inline Expr operator+(double a, Expr b) { return b.splat(a) + b; }
inline Expr operator-(double a, Expr b) { return b.splat(a) - b; }
inline Expr operator*(double a, Expr b) { return b.splat(a) * b; }
inline Expr operator/(double a, Expr b) { return b.splat(a) / b; }

inline Expr exp(Expr a) { return a.apply<ExpOp>(Value(a)); }
inline Expr log(Expr a) { return a.apply<LogOp>(Value(a)); }
inline Expr sqrt(Expr a) { return a.apply<SqrtOp>(Value(a)); }
inline Expr rsqrt(Expr a) { return a.apply<RsqrtOp>(Value(a)); }
inline Expr tanh(Expr a) { return a.apply<TanhOp>(Value(a)); }
inline Expr erf(Expr a) { return a.apply<ErfOp>(Value(a)); }
inline Expr logistic(Expr a) { return a.apply<LogisticOp>(Value(a)); }
inline Expr maximum(Expr a, double b) { return a.apply<MaxOp>(a, a.splat(b)); }
inline Expr minimum(Expr a, double b) { return a.apply<MinOp>(a, a.splat(b)); }
inline Expr square(Expr a) { return a * a; }

/// All dimensions but the last, as for reductions over rows or broadcasts along them.
inline SmallVector<int64_t> leadingDims(int64_t rank) {
  SmallVector<int64_t> dims;
  for (int64_t dim = 0; dim + 1 < rank; ++dim)
    dims.push_back(dim);
  return dims;
}

/// A value without the last dimension, repeated along the last dimension of `like`.
inline Expr alongRows(Expr rows, Expr like) { return rows.broadcast(like.getShape(), leadingDims(like.getRank())); }

/// A vector of the last dimension's size, repeated over the rows of `like`.
inline Expr overRows(Expr vector, Expr like) { return vector.broadcast(like.getShape(), {like.getRank() - 1}); }

} // namespace mlir::dt
