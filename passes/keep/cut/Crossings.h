// How what crosses the cuts of a pipeline travels: whole, or in parts.
//
// With tensor parallelism the ranks of a stage have the same activation. If each sends all of it to its peer in the
// next stage, the slow link between stages carries it as many times as there are such ranks. Sliced, each rank sends
// one part, and the ranks of the next stage gather the parts over their own links (the scatter/gather optimization of
// Narayanan et al., arXiv:2104.04473, section 4.1). Gradients go back likewise. What is put together from equal copies
// equals them, so no bit changes.
#pragma once

#include "dialect/IR/Marks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <functional>
#include <memory>
#include <optional>

namespace dtc {

struct StageCut;

/// Over which mesh axes ranks may have different values, in a function over a rank's pieces: over all axes that split
/// an argument or that an operation names, except those over which a collective has made the value the same.
class VaryingAxes {
public:
  /// A set of the mesh's axes: bit i stands for axis i.
  using Mask = uint64_t;
  static constexpr size_t mostAxes = 64; ///< of the mesh; values count as varying over any further axis

  explicit VaryingAxes(mlir::dt::MeshAttr mesh) : mesh(mesh) {}

  /// Follows all values of a function whose ports have placements; what has none may vary over all axes.
  void add(mlir::func::FuncOp function);
  /// Of a value of a function that was added.
  Mask of(mlir::Value value) const { return masks.lookup(value); }
  /// Of the axis that a reference is to.
  Mask bitOf(mlir::dt::AxisRefAttr axis) const;

private:
  Mask axesIn(mlir::Attribute attribute) const;
  Mask resultOf(mlir::Operation *op) const;

  mlir::dt::MeshAttr mesh;
  llvm::DenseMap<mlir::Value, Mask> masks;
};

/// The equal parts in which a tensor crosses a cut.
struct CrossingParts {
  llvm::SmallVector<mlir::dt::AxisRefAttr> axes; ///< over which ranks have the same tensor; each rank sends its part
  int64_t count;
  int64_t dim; ///< along which it is sliced

  /// The type of one part of a tensor.
  mlir::RankedTensorType partOf(mlir::RankedTensorType whole) const;
};

/// The first dimension that the ranks along these axes divide; where none is, fewer axes, the outer ones left out
/// first.
std::optional<CrossingParts> findParts(mlir::RankedTensorType type, llvm::ArrayRef<mlir::dt::AxisRefAttr> axes,
                                       mlir::dt::MeshAttr mesh);

/// The part of a tensor that a rank sends, right behind what makes the tensor.
mlir::Value slice(mlir::Value whole, const CrossingParts &parts, const mlir::dt::Marks &marks);
/// A tensor of which each rank has received a part: the same as `of`, which another stage has made. The gather belongs
/// to no layer and does not have the name of one, so that equal stages have equal functions.
mlir::Value gatherParts(mlir::OpBuilder &builder, mlir::Value part, mlir::Value of, const CrossingParts &parts,
                        bool isForward);

/// Seconds, where the links are known.
struct CrossingCosts {
  /// Of this many bytes that each rank sends from one rank along the pipeline to another. Empty: the links are not
  /// known.
  std::function<double(int64_t from, int64_t to, double bytes)> send;
  /// Of gathering a tensor over these axes.
  std::function<double(llvm::ArrayRef<mlir::dt::AxisRefAttr> axes, mlir::RankedTensorType whole)> gather;
};

/// For each cut of a model how everything that crosses it travels, in all functions.
class Crossings {
public:
  /// The module's `dt.crossing` decides; where it says nothing, costs do, by the first tensor at a cut that could be
  /// sliced. Without costs everything is whole. `cut` must outlive this object.
  Crossings(mlir::ModuleOp module, const StageCut &cut, CrossingCosts costs);

  /// Before a function is cut.
  void add(mlir::func::FuncOp function);
  /// The parts in which a value of an added function goes from a stage to a neighbouring one; nothing: it is whole.
  std::optional<CrossingParts> partsOf(mlir::Value value, int64_t from, int64_t to);
  /// Writes what was decided to the module's `dt.crossing`; nothing, where nothing could be sliced or was said to be.
  void write(mlir::ModuleOp module) const;

private:
  enum class Way { Open, Whole, Sliced };
  bool isFaster(const CrossingParts &parts, mlir::RankedTensorType whole, int64_t from, int64_t to) const;

  mlir::dt::MeshAttr mesh;
  const StageCut &cut;
  CrossingCosts costs;
  VaryingAxes varying;
  llvm::SmallVector<mlir::dt::AxisRefAttr> axes; ///< all but the pipeline's that have several ranks
  llvm::SmallVector<Way> ways;                   ///< of the cuts: number i is behind stage i
};

/// dt-cut with these costs.
std::unique_ptr<mlir::Pass> createCutByCosts(CrossingCosts costs);

} // namespace dtc
