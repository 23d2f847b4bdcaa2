// How an operation that a library kernel serves describes the call.
#pragma once

#include "dialect/IR/Attributes.h"

namespace mlir::dt {

/// Where a tensor's elements lie within its buffer, in elements.
struct StridedLayout {
  SmallVector<int64_t> shape;
  SmallVector<int64_t> strides;
  static StridedLayout dense(ArrayRef<int64_t> shape);
  /// Row-major without gaps; dimensions of size one may have any stride.
  bool isDense() const;
};

/// A part of a buffer: its first element and the layout from there.
struct StridedView {
  int64_t offset = 0;
  StridedLayout layout;
};

/// The same elements, in row-major order, under another shape, without moving any; nothing where strides do not allow
/// it.
std::optional<StridedLayout> reshapeLayout(const StridedLayout &layout, ArrayRef<int64_t> shape);

/// A scalar argument of a launch: an integer, a double, the index of the executing rank within some axes times a scale,
/// or one of the launch's sites.
struct LaunchScalar {
  enum class Kind { Integer, Real, RankIndex, Site } kind = Kind::Integer;
  int64_t integer = 0; ///< the value; for RankIndex the scale, for Site its number
  double real = 0;
  SmallVector<AxisRefAttr> axes;

  static LaunchScalar of(int64_t value) { return {Kind::Integer, value, 0, {}}; }
  static LaunchScalar of(double value) { return {Kind::Real, 0, value, {}}; }
  static LaunchScalar rankIndex(ArrayRef<AxisRefAttr> axes, int64_t scale) {
    return {Kind::RankIndex, scale, 0, SmallVector<AxisRefAttr>(axes)};
  }
  static LaunchScalar site(int64_t number) { return {Kind::Site, number, 0, {}}; }
};

/// One call of a library kernel; buffers, scalars and grid as its table in runtime/abi/library says. `buffers` index
/// the operation's operands and then its results.
struct LibraryCall {
  StringRef kernel; ///< its name, as in "gemm"; the target knows the symbol
  SmallVector<unsigned> buffers;
  unsigned numInputs = 0; ///< how many of `buffers` are only read
  SmallVector<LaunchScalar> scalars;
  int64_t grid = 1;
  int64_t grain = 1;
  /// Whether the kernel only moves elements, of any type. Otherwise it computes: its floating-point buffers are f32,
  /// ...
  bool movesOnly = false;
  /// ... or may have 16 bits, where the call tells the kernel the element type.
  bool toldElement = false;
};

/// What an operation does with a product that it reads.
struct EpilogueStep {
  enum class Kind {
    Widen,       ///< converts it to the type that its sums are formed in
    Accumulate,  ///< adds it to `other`
    Bias,        ///< adds `other` along its last dimensions
    Gelu,        ///< dt.gelu with tanh
    GeluGradient ///< dt.gelu_grad with tanh, at `other`
  } kind;
  Value other = {};
};

/// What a collective moves, as manifest.proto's Collective says.
struct CollectiveShape {
  enum class Kind { AllReduce = 0, AllGather = 1, ReduceScatter = 2, AllToAll = 3 } kind;
  int64_t outer = 1, middle = 1, chunk = 1;
  bool splitFirst = false;
  ReductionKind reduction = ReductionKind::Sum;
};

} // namespace mlir::dt
