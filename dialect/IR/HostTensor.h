// The reference interpreter's tensors and its view of one rank.
#pragma once

#include "dialect/IR/Attributes.h"

#include <memory>
#include <vector>

namespace mlir::dt {

/// A dense row-major tensor of doubles: floating-point values, integers and masks (0 or 1) alike. Values of
/// floating-point tensors are rounded to their type after each operation unless the interpreter runs in f64: then
/// conversions between such types change nothing.
struct HostTensor {
  SmallVector<int64_t> shape;
  std::shared_ptr<std::vector<double>> elements; ///< shared: evaluation never changes an operand in place

  HostTensor() = default;
  explicit HostTensor(ArrayRef<int64_t> shape, double fill = 0)
      : shape(shape), elements(std::make_shared<std::vector<double>>(numElements(shape), fill)) {}
  explicit HostTensor(std::initializer_list<int64_t> shape) // g++ may take braces for a copied tensor
      : HostTensor(ArrayRef<int64_t>(shape)) {}

  static int64_t numElements(ArrayRef<int64_t> shape) {
    int64_t n = 1;
    for (int64_t size : shape)
      n *= size;
    return n;
  }
  int64_t size() const { return static_cast<int64_t>(elements->size()); }
  double &operator[](int64_t i) { return (*elements)[i]; }
  double operator[](int64_t i) const { return (*elements)[i]; }
};

/// Which rank evaluates, for operations whose meaning depends on where a piece is in the whole.
struct RankContext {
  MeshAttr mesh; ///< null: one rank
  int64_t rank = 0;
  bool f64 = true;              ///< otherwise results of f32, bf16 and f16 are rounded to their type
  ArrayRef<int64_t> sites = {}; ///< within a kernel, the launch's sites, which the kernel's draws refer to by number

  /// The index of this rank within the axes, row-major; 0 without a mesh.
  int64_t indexIn(ArrayRef<AxisRefAttr> axes) const;
};

} // namespace mlir::dt
