// Arithmetic on ranks and axes.
#include "dialect/reference/Mesh.h"
#include "dialect/IR/HostTensor.h"

using namespace mlir;
using namespace mlir::dt;

namespace {
/// The digit of a rank number that an axis reference names: (rank / stride) % size.
struct Digit {
  int64_t stride, size;

  Digit(MeshAttr mesh, AxisRefAttr ref) : stride(1), size(ref.getSizeIn(mesh)) {
    for (AxisAttr axis : llvm::reverse(mesh.getAxes())) {
      if (axis.getName() == ref.getAxis()) {
        stride *= axis.getSize() / (ref.getPre() * size);
        return;
      }
      stride *= axis.getSize();
    }
  }

  int64_t of(int64_t rank) const { return rank / stride % size; }
};
} // namespace

int64_t dt::getGroupSize(MeshAttr mesh, ArrayRef<AxisRefAttr> axes) {
  int64_t size = 1;
  for (AxisRefAttr ref : axes)
    size *= ref.getSizeIn(mesh);
  return size;
}

int64_t dt::getIndexIn(MeshAttr mesh, int64_t rank, ArrayRef<AxisRefAttr> axes) {
  int64_t index = 0;
  for (AxisRefAttr ref : axes) {
    Digit digit(mesh, ref);
    index = index * digit.size + digit.of(rank);
  }
  return index;
}

int64_t dt::moveTo(MeshAttr mesh, int64_t rank, ArrayRef<AxisRefAttr> axes, int64_t index) {
  for (AxisRefAttr ref : llvm::reverse(axes)) {
    Digit digit(mesh, ref);
    rank += (index % digit.size - digit.of(rank)) * digit.stride;
    index /= digit.size;
  }
  return rank;
}

SmallVector<int64_t> dt::getGroup(MeshAttr mesh, int64_t rank, ArrayRef<AxisRefAttr> axes) {
  return llvm::map_to_vector(llvm::seq<int64_t>(0, getGroupSize(mesh, axes)),
                             [&](int64_t index) { return moveTo(mesh, rank, axes, index); });
}

int64_t RankContext::indexIn(ArrayRef<AxisRefAttr> axes) const { return mesh ? getIndexIn(mesh, rank, axes) : 0; }
