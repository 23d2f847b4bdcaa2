// Rows that are looked up in a table whose rows are stored in parts on several ranks, such as an embedding with ZeRO-3.
// A lookup is not linear, but it takes each part of a row from that part of the table, so rows may move instead:
//
//   gather(all_gather(table), ids) = all_to_all(gather(table, all_gather(ids)))
//
// Each rank looks up its part of everybody's rows. Values only move, so every bit stays.
#pragma once

#include "dialect/IR/Ops.h"
#include "passes/keep/rows/RowMoves.h"

#include <optional>

namespace dtc {

class LookedUpRows {
public:
  /// Nothing if an operation is no gather of a parameter along its rows, or if anything other than lookups reads it.
  static std::optional<LookedUpRows> find(mlir::Operation *op, mlir::dt::MeshAttr mesh);

  /// The parameter whose rows they are, and its name for all equal layers: "h.*.w".
  mlir::StringAttr getParameter() const { return parameter; }
  mlir::StringAttr getParameterClass() const { return classOf(parameter, gather); }
  /// What a rank sends for the table, and for the rows instead.
  SentBytes sentBytes();
  void rewrite();

private:
  /// An operation that reads the table by indices.
  struct Lookup {
    mlir::dt::FactorOpInterface op;
    unsigned table, ids;                  ///< operands
    int64_t idsDim, rowDim;               ///< along which pieces of ids, and of the result, are laid end to end
    int64_t partDim;                      ///< of the result: the dimension of which ranks hold parts
    mlir::RankedTensorType allIds, parts; ///< of all ranks' ids, and of this rank's part of their rows
  };

  LookedUpRows(mlir::dt::AllGatherOp gather, int64_t ranks) : gather(gather), ranks(ranks) {}
  std::optional<Lookup> understand(mlir::OpOperand &use);
  void rewrite(mlir::OpBuilder &builder, Lookup &lookup);

  mlir::dt::AllGatherOp gather;
  int64_t ranks; ///< that each hold a part
  mlir::StringAttr parameter;
  llvm::SmallVector<Lookup, 1> lookups;
};

} // namespace dtc
