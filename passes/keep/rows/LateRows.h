// A gradient to which rows are added late, as those of an embedding, which the backward pass comes to last. A sum over
// ranks is linear, so what it was before can be summed up as soon as it is there, and the rows be added to that:
//
//   all_reduce(scatter_add(table, ids, rows)) = scatter_add(all_reduce(table), all_gather(ids), all_gather(rows))
//
//   of all ranks' sums           the table                             the rows
//   each has all                 all_reduce                            all_gather along the rows
//   each has a part of a row     reduce_scatter along the row          all_to_all: that part of everybody's rows
//   each has some of the rows    reduce_scatter along the table's rows all_gather; those of others are skipped
//
// Sums are formed in another order: first over the ranks, then over the rows of all, in the order of ranks.
#pragma once

#include "dialect/IR/Ops.h"
#include "passes/keep/rows/RowMoves.h"

#include <optional>

namespace dtc {

/// An operation that adds to one operand, the table, what it makes of all others along a dimension that these have in
/// common, the rows. So of two ranks' rows laid end to end it gives what both add.
struct Addition {
  mlir::dt::FactorOpInterface op;
  mlir::dt::FactorRule rule;
  unsigned table = 0; ///< an operand
  int rows = -1;      ///< a factor

  static std::optional<Addition> find(mlir::Operation *op);
  /// The factor of a dimension of the result; -1 where that has none.
  int factorOf(int64_t dim) const;
  /// Whether only the table has a dimension of the result, as the one along which rows go to their places.
  bool isOfTableAlone(int64_t dim) const;

private:
  bool allAddAlong(int factor) const;
};

/// Whose gradient a value is, or of what it becomes on the way to where that is returned; null where it is none.
mlir::StringAttr findParameter(mlir::Value gradient);

class LateRows {
public:
  /// Nothing where an operation is no such addition to a gradient, or the result is not summed up over ranks.
  static std::optional<LateRows> find(mlir::Operation *op, mlir::dt::MeshAttr mesh);

  /// Whose gradient it is.
  mlir::StringAttr getParameter() const { return parameter; }
  /// The same of all equal layers: "h.*.w".
  mlir::StringAttr getParameterClass() const { return classOf(parameter, op); }
  /// What a rank sends for all of the gradient, and for the rows instead.
  SentBytes sentBytes() const;
  /// Lets all else be summed up early, and moves the rows.
  void rewrite();

private:
  /// A collective on an operand other than the table.
  struct Move {
    unsigned operand;
    int64_t rows; ///< the dimension along which pieces are laid end to end
    int64_t cut;  ///< the one of which each rank gets a part; -1: none
    llvm::SmallVector<mlir::dt::AxisRefAttr> axes;
    mlir::RankedTensorType type; ///< of the result
  };

  LateRows(Addition found, mlir::dt::MeshAttr mesh) : addition(std::move(found)), op(addition.op), mesh(mesh) {}
  bool followReductions();
  bool follow(mlir::Operation *step);
  void planMoves(mlir::dt::CollectiveOpInterface reduction, int64_t scattered);
  mlir::Value reduceTable(mlir::OpBuilder &builder) const;
  mlir::Value build(mlir::OpBuilder &builder, const Move &move, mlir::Value value) const;

  Addition addition;
  mlir::Operation *op;
  mlir::dt::MeshAttr mesh;
  /// What becomes of the result: collectives, and what cuts or pads before them.
  llvm::SmallVector<mlir::Operation *, 2> reductions;
  /// The axes that split each dimension of the result after these, of those along which places are counted.
  llvm::SmallVector<llvm::SmallVector<mlir::dt::AxisRefAttr>, 2> split;
  llvm::SmallVector<Move, 4> moves;
  mlir::StringAttr parameter;
};

} // namespace dtc
