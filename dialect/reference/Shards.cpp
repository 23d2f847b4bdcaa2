// Scattering to pieces and gathering from them.
#include "dialect/reference/Shards.h"
#include "dialect/IR/Reductions.h"
#include "dialect/reference/Mesh.h"
#include "dialect/reference/Strided.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace mlir::dt;

namespace {
/// The box of the whole that a rank holds, and how much of its piece is not padding.
struct Box {
  SmallVector<int64_t> present; ///< sizes without padding; some may be 0
  int64_t offset = 0;           ///< of the first element in the whole, row-major

  Box(ShardingAttr sharding, MeshAttr mesh, int64_t rank, ArrayRef<int64_t> globalShape) {
    SmallVector<int64_t> local = sharding.getLocalShape(globalShape, mesh), strides = denseStrides(globalShape);
    for (size_t dim = 0; dim < local.size(); ++dim) {
      int64_t first = getIndexIn(mesh, rank, sharding.getDimAxes(dim)) * local[dim];
      present.push_back(std::clamp<int64_t>(globalShape[dim] - first, 0, local[dim]));
      offset += first * strides[dim];
    }
  }
  bool empty() const { return HostTensor::numElements(present) == 0; }
};
} // namespace

/// Visits the pairs (element of the piece, element of the whole) of a rank's box.
template <typename Visit>
static void walkBox(const Box &box, ArrayRef<int64_t> local, ArrayRef<int64_t> global, Visit visit) {
  if (box.empty())
    return;
  SmallVector<int64_t> inPiece;
  walkStrided(box.present, denseStrides(local), 0, [&](int64_t, int64_t j) { inPiece.push_back(j); });
  walkStrided(box.present, denseStrides(global), box.offset, [&](int64_t i, int64_t j) { visit(inPiece[i], j); });
}

HostTensors dt::scatter(const HostTensor &global, ShardingAttr sharding, MeshAttr mesh, double padding) {
  HostTensors pieces;
  SmallVector<int64_t> local = sharding.getLocalShape(global.shape, mesh);
  SmallVector<AxisRefAttr> addedAxes; // along which each piece counts
  for (auto [axis, kind] : llvm::zip_equal(sharding.getPartial(), sharding.getReductions()))
    if (!reductionOf(kind).isIdempotent)
      addedAxes.push_back(axis);
  for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank) {
    HostTensor piece(local, padding);
    bool holdsValue = getIndexIn(mesh, rank, addedAxes) == 0;
    walkBox(Box(sharding, mesh, rank, global.shape), local, global.shape,
            [&](int64_t i, int64_t j) { piece[i] = holdsValue ? global[j] : 0; });
    pieces.push_back(piece);
  }
  return pieces;
}

/// The piece of the value that `rank` would hold once its partial pieces were combined: those of the last kind after
/// all others.
static HostTensor combinePartial(ArrayRef<HostTensor> pieces, ShardingAttr sharding, MeshAttr mesh, int64_t rank) {
  if (sharding.getPartial().empty())
    return pieces[rank];
  ReductionKind last = sharding.getReductions().back();
  SmallVector<int64_t> group = getGroup(mesh, rank, sharding.getPartial(last));
  ShardingAttr others = sharding.withoutPartial(last);
  HostTensor combined(pieces[rank].shape);
  *combined.elements = *combinePartial(pieces, others, mesh, group[0]).elements;
  for (int64_t member : ArrayRef(group).drop_front()) {
    HostTensor piece = combinePartial(pieces, others, mesh, member);
    for (int64_t i = 0; i < combined.size(); ++i)
      combined[i] = reductionOf(last).combine(combined[i], piece[i]);
  }
  return combined;
}

std::optional<HostTensor> dt::gather(ArrayRef<HostTensor> pieces, ShardingAttr sharding, MeshAttr mesh,
                                     ArrayRef<int64_t> globalShape, std::string &problem) {
  SmallVector<int64_t> local = sharding.getLocalShape(globalShape, mesh);
  HostTensor global(globalShape);
  SmallVector<int64_t> writer(global.size(), -1); // which rank's piece an element came from
  for (int64_t rank = 0; rank < mesh.getNumRanks() && problem.empty(); ++rank) {
    if (pieces[rank].shape != local) {
      problem = llvm::formatv("rank {0} holds a piece of shape [{1:$[, ]}] instead of [{2:$[, ]}]", rank,
                              llvm::make_range(pieces[rank].shape.begin(), pieces[rank].shape.end()),
                              llvm::make_range(local.begin(), local.end()));
      break;
    }
    HostTensor piece = combinePartial(pieces, sharding, mesh, rank);
    walkBox(Box(sharding, mesh, rank, globalShape), local, globalShape, [&](int64_t i, int64_t j) {
      bool equal = piece[i] == global[j] || (std::isnan(piece[i]) && std::isnan(global[j]));
      if (writer[j] >= 0 && !equal && problem.empty())
        problem = llvm::formatv("ranks {0} and {1} should hold the same piece but differ at element {2} of the whole: "
                                "{3} and {4}",
                                writer[j], rank, j, global[j], piece[i]);
      if (writer[j] < 0) {
        writer[j] = rank;
        global[j] = piece[i];
      }
    });
  }
  if (!problem.empty())
    return std::nullopt;
  return global;
}
