// The scratch of attention's gradient by cuDNN, which stores the gradients of scores, and how a call is cut where that
// is too much: the compiler plans with what the runtime cuts by.
#pragma once

#include "runtime/abi/element_type.h"

#include <algorithm>
#include <optional>

namespace dtc::abi {

/// The sizes of a call, as AttentionScalars (runtime/abi/library/attention.h) has them.
struct FusedGradient {
  DataType element;
  int64_t batches, groups, repeats, queries, keys, width;

  /// As cuDNN 9.19 asks for it on sm_90, which needs most (test/gpu/cudnn_engines_test.cpp): scores' gradients by
  /// blocks of 128, gradients of keys and values for each head of queries, and some for alignment; and rowsum(dO o)
  /// beside it.
  int64_t scratchBytes() const { return batches * groups * bytesOfGroup() + Rest; }

  /// Heads of keys, with the heads of queries that share them, as many as need no more scratch: of several batches only
  /// if these are whole. Cuts are even, so that most pieces are alike. Nothing where one such head needs more.
  std::optional<FusedGradient> pieceWithin(int64_t mostBytes) const {
    int64_t most = (mostBytes - Rest) / bytesOfGroup();
    if (mostBytes < Rest || most < 1)
      return std::nullopt;
    auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
    FusedGradient piece = *this;
    piece.batches = most < groups ? 1 : up(batches, up(batches, most / groups));
    piece.groups = up(groups, up(groups, std::min(most, groups)));
    return piece;
  }

private:
  static constexpr int64_t Block = 128, Rest = 4096;

  int64_t bytesOfGroup() const {
    auto blocks = [](int64_t rows) { return (rows + Block - 1) / Block * Block; };
    int64_t elements = repeats * blocks(queries) * blocks(keys);
    if (repeats > 1)
      elements += 2 * repeats * keys * width;
    return static_cast<int64_t>(bytesOf(element, uint64_t(elements)) + bytesOf(F32, uint64_t(repeats * queries)));
  }
};

} // namespace dtc::abi
