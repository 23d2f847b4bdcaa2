// The scratch memory that cuDNN's attention gradient needs (it stores the gradients of the scores), and how a call is
// split where that is too much. The compiler plans with the same rule by which the runtime splits.
#pragma once

#include "runtime/abi/element_type.h"

#include <algorithm>
#include <optional>

namespace dtc::abi {

/// The sizes of a call, as in AttentionScalars (runtime/abi/library/attention.h).
struct FusedGradient {
  DataType element;
  int64_t batches, groups, repeats, queries, keys, width;

  /// What cuDNN 9.19 asks for on sm_90, which needs the most (test/gpu/cudnn_engines_test.cpp): gradients of scores in
  /// blocks of 128, gradients of keys and values for each query head, and some for alignment; plus rowsum(dO o).
  int64_t scratchBytes() const { return batches * groups * bytesOfGroup() + Rest; }

  /// As many key heads, with the query heads that share them, as fit into `mostBytes` of scratch. A piece spans several
  /// batches only if it takes each of them whole. Pieces are of even size, so that most are alike. Nullopt if a single
  /// key head needs more.
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
