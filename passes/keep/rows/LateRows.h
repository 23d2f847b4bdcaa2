// A gradient to which rows are added late, such as an embedding's, which the backward pass reaches last. A sum over
// ranks is linear, so what the gradient was before can be summed up as soon as it is there, and the rows can be added
// to that:
//
//   all_reduce(scatter_add(table, ids, rows)) = scatter_add(all_reduce(table), all_gather(ids), all_gather(rows))
//
//   of all ranks' sums           the table                             the rows
//   each has all                 all_reduce                            all_gather along the rows
//   each has a part of a row     reduce_scatter along the row          all_to_all: that part of everybody's rows
//   each has some of the rows    reduce_scatter along the table's rows all_gather; those of others are skipped
//
// Sums are formed in another order: first over the ranks, then over all rows, in the order of ranks.
#pragma once

#include "dialect/IR/Ops.h"
#include "passes/keep/rows/RowMoves.h"

#include <optional>

namespace dtc {

/// An operation that adds to one operand, the table, what it makes from all others along a dimension that these have in
/// common, the rows. So for two ranks' rows laid end to end it gives what both add.
struct Addition {
  mlir::dt::FactorOpInterface op;
  mlir::dt::FactorRule rule;
  unsigned table = 0; ///< an operand
  int rows = -1;      ///< a factor

  static std::optional<Addition> find(mlir::Operation *op);
  /// The factor of a dimension of the result; -1 where that has none.
  int factorOf(int64_t dim) const;
  /// Whether only the table has a dimension of the result, like the one along which rows go to their places.
  bool isOfTableAlone(int64_t dim) const;

private:
  bool allAddAlong(int factor) const;
};

/// The parameter whose gradient a value is, or becomes on its way to the return; null if there is none.
mlir::StringAttr findParameter(mlir::Value gradient);

class LateRows {
public:
  /// Nothing if an operation is no such addition to a gradient, or if the result is not summed up over ranks.
  static std::optional<LateRows> find(mlir::Operation *op, mlir::dt::MeshAttr mesh);

  /// The parameter whose gradient it is.
  mlir::StringAttr getParameter() const { return parameter; }
  /// The same for all equal layers: "h.*.w".
  mlir::StringAttr getParameterClass() const { return classOf(parameter, op); }
  /// What a rank sends for the whole gradient, and for the rows instead.
  SentBytes sentBytes() const;
  /// Lets everything else be summed up early, and moves the rows.
  void rewrite();

private:
  /// A collective on an operand other than the table.
  struct Move {
    unsigned operand;
    int64_t rows; ///< the dimension along which pieces are laid end to end
    int64_t cut;  ///< the dimension of which each rank gets a part; -1: none
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
  /// The axes that split each dimension of the result after these, for dimensions along which places are counted.
  llvm::SmallVector<llvm::SmallVector<mlir::dt::AxisRefAttr>, 2> split;
  llvm::SmallVector<Move, 4> moves;
  mlir::StringAttr parameter;
};

} // namespace dtc
