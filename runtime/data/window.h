// One sample: consecutive tokens and, shifted by one, their targets.
#pragma once

#include "runtime/data/token_data.h"

#include <cstdint>
#include <span>

namespace dtc {

/// Which part of a sample an input holds: its tokens, its targets, or for each token the column at which its document
/// begins (0 if that is before the sample or document boundaries are unknown).
enum class SamplePart { Tokens, Targets, DocumentStarts };

/// The target of a position that does not count.
inline constexpr int32_t ignoredTarget = -100;

/// The padding where there is no sample: token 0, an ignored target, or a document that begins at the first column.
inline int32_t paddingOf(SamplePart part) { return part == SamplePart::Targets ? ignoredTarget : 0; }

/// The rows and columns of one input's micro-batch that this rank stores, and their layout in its memory.
struct BatchSlice {
  int64_t firstRow = 0, rows = 0;       ///< of the micro-batch, without padding
  int64_t firstColumn = 0, columns = 0; ///< of the sequence, without padding
  int64_t localRows = 0, localColumns = 0;
};

struct Window {
  const TokenData *data = nullptr;
  size_t begin = 0; ///< its first token
  /// How many columns it fills with the tokens from `begin` on, each of which predicts the next; below zero: none.
  int64_t targets = 0;
};

struct WindowOptions {
  int64_t vocabulary = 0;
  /// Whether a token that begins a document is not a target, because nothing before it predicts it.
  bool separateDocuments = false;
};

/// Writes the slice's columns of a window to `row`, which holds padding: columns that the window does not fill keep it.
/// Throws Error (BadInput) for a token outside the vocabulary.
void fillWindow(SamplePart part, const Window &window, const WindowOptions &options, const BatchSlice &slice,
                int32_t *row);

} // namespace dtc
