// Attention in f64 on strided memory, one query row at a time: what dt.attention's reference semantics and the
// reference for the attention kernels (which run on strided views of an arena) share.
#pragma once

#include "runtime/abi/random.h"

#include <array>
#include <cstdint>

namespace mlir::dt {

/// Sizes, masks and dropout of one attention; the fields are the scalars of dtc_attention_forward in
/// runtime/kernels/kernels.h, which states the index of a dropout draw.
struct AttentionRows {
  int64_t batch, queries, keys, groups, repeats, width;
  int64_t firstSample, firstGroup, firstRepeat, allGroups, allRepeats, length;
  double scale, dropout;
  bool causal;
  const double *qPositions, *kPositions;
  double key2;     ///< the third word of the key: the first sample of this micro-batch
  uint32_t stream; ///< of key and site

  /// Strides of [batch, sequence, group, repeat]; keys and values have no fourth. Elements are contiguous.
  using Strides = std::array<int64_t, 4>;
  struct Input {
    const double *data;
    Strides strides;
    const double *row(int64_t b, int64_t s, int64_t g, int64_t r = 0) const {
      return data + b * strides[0] + s * strides[1] + g * strides[2] + r * strides[3];
    }
  };
  struct Output {
    double *data;
    Strides strides;
    double *row(int64_t b, int64_t s, int64_t g, int64_t r = 0) const {
      return data + b * strides[0] + s * strides[1] + g * strides[2] + r * strides[3];
    }
  };

  /// Writes out and lse [batch, group, repeat, query], dense.
  void forward(Input q, Input k, Input v, Output out, double *lse) const;

  /// Writes the gradients dq, dk and dv, which recompute the probabilities from lse.
  void backward(Input q, Input k, Input v, Input out, const double *lse, Input dOut, Output dq, Output dk,
                Output dv) const;

private:
  /// scale q·k for each key, -infinity where the mask hides it; NaN where a position is undefined.
  void scoreRow(const double *q, Input k, int64_t b, int64_t g, int64_t query, double *scores) const;
  /// What the probability of a pair is multiplied by.
  double dropoutFactor(int64_t b, int64_t g, int64_t r, int64_t query, int64_t key) const;
};

} // namespace mlir::dt
