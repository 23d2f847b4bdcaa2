// What attention's functions share: arguments, heads, positions, masks and dropout.
#pragma once

#include "passes/lower/cuda/kernels/GpuTiles.h"
#include "passes/lower/cuda/library/GpuAttention.h"
#include "runtime/abi/library/attention.h"

namespace dtc {

/// A head of queries, (b, g, r), or of keys and values, without r.
struct GpuHead {
  mlir::Value b, g, r;
};

/// A query: what decides about keys, and what is known of its row.
struct GpuQuery {
  mlir::Value limit;            ///< i32
  mlir::Value floor;            ///< of a window or a document, i32: visible positions are above it
  mlir::Value draw;             ///< of dropout: the index of key position 0, i64
  mlir::Value logSumExp, delta; ///< of the gradient; the first in base 2
};

class GpuAttentionCode {
public:
  /// Operands of the tables; where there are documents, their starts are behind the key.
  enum Buffer { Q, K, V, QueryPositions, KeyPositions, Key, Out, LogSumExp, DOut, DQ, DK, DV, Scratch };
  /// Of the gradient; the forward functions have the first of these.
  using Scalars = abi::library::AttentionBackwardScalars;
  using Values = GpuTiles::Values;

  GpuAttentionCode(const GpuAttention &kind, llvm::StringRef what, mlir::gpu::GPUModuleOp module);

private:
  std::unique_ptr<GpuTiles> tiles;

protected:
  GpuTiles &code;
  mlir::Value buffer(Buffer number) { return code.argument(kind.documents && number > Key ? number + 1u : number); }
  bool hasFloor() const { return kind.window || kind.documents; }
  mlir::Value scalar(int64_t Scalars::*field) { return scalarAt(abi::library::indexOf(field)); }
  mlir::Value realScalar(double Scalars::*field);

  /// Head `number` of the queries', or of the keys'.
  GpuHead headOfQueries(mlir::Value number);
  GpuHead headOfKeys(mlir::Value number);
  /// The head's rows of a buffer with these strides.
  GpuRows rows(Buffer number, abi::library::QueryStrides Scalars::*strides, const GpuHead &head);
  GpuRows rows(Buffer number, abi::library::KeyStrides Scalars::*strides, const GpuHead &head);
  /// The index of a head's first query in rows of all heads: of log-sum-exps and deltas.
  mlir::Value firstOf(const GpuHead &head);

  /// The position of a key; the one that no limit reaches where there is none.
  mlir::Value keyPosition(mlir::Value key);
  /// One that there is not sees nothing.
  GpuQuery query(mlir::Value number, const GpuHead &head);
  /// Those of the rows of a thread's patch.
  llvm::SmallVector<GpuQuery> queriesOfRows(mlir::Value first, const GpuHead &head);

  /// What decides whether some key of a tile is visible to some query of another, where attention is causal. Each side
  /// is known by its smallest and largest positions, which all threads have.
  struct Range {
    mlir::Value smallest, largest;
  };
  Range rangeOfQueries(mlir::Value firstQuery) { return rangeOf(QueryPositions, firstQuery, scalar(&Scalars::S)); }
  Range rangeOfKeys(mlir::Value firstKey) { return rangeOf(KeyPositions, firstKey, scalar(&Scalars::T)); }
  /// Whether no key is visible to any query.
  mlir::Value isHidden(const Range &queries, const Range &keys);

  /// Of scores, an f32.
  mlir::Value scale() { return narrowed(realScalar(&Scalars::scale)); }
  /// Of the keys and values of a head of queries.
  GpuWalk tilesOfKeys(const GpuHead &head, mlir::Value firstQuery);

  /// The score, in base 2, where the key is visible, else minus infinity. `share`, if asked for, becomes the score's
  /// share of its soft cap.
  mlir::Value maskedScore(mlir::Value product, const GpuQuery &query, mlir::Value keyPosition,
                          mlir::Value *share = nullptr);
  /// What dropout multiplies a probability by.
  mlir::Value keptFactor(mlir::Value draw, mlir::Value keyPosition);
  /// A log-sum-exp or largest score, or zero where there is none: any finite number makes masked scores' powers zero.
  mlir::Value reference(mlir::Value largest);

  const GpuAttention kind;
  mlir::Value minusInfinity;

private:
  mlir::Value scalarAt(size_t number);
  mlir::Value mix(mlir::Value bits);
  mlir::Value shiftRight(mlir::Value bits, int64_t count);
  mlir::Value narrowed(mlir::Value real);
  mlir::Value positionAt(Buffer positions, mlir::Value index, mlir::Value count);
  void prepareDropout();
  mlir::Value firstDraw(mlir::Value position, const GpuHead &head);

  Range rangeOf(Buffer positions, mlir::Value first, mlir::Value count);
  mlir::Value tangent(mlir::Value x);

  mlir::Value scaleInBase2;              ///< of products; with a soft cap, of its shares
  mlir::Value scaleOfShares;             ///< products times it are scores in soft caps
  mlir::Value stream, threshold, factor; ///< of dropout
};

void emitAttentionForward(const GpuAttention &kind, mlir::gpu::GPUModuleOp module);
void emitAttentionBackward(const GpuAttention &kind, mlir::gpu::GPUModuleOp module);

} // namespace dtc
