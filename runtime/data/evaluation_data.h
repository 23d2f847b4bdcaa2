// Tokens to evaluate on, each of them a target once. They are cut from the front into windows of sequence_length; the
// rest is a shorter window. Neighbouring windows share a token, as in training (sampler.h).
//
// Windows belong to passages: either all tokens are one passage, or each document is one, so that no window spans
// documents. A window begins without context: its first targets are predicted from few tokens.
#pragma once

#include "runtime/data/window.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dtc {

struct EvaluationOptions {
  int64_t sequenceLength = 0;
  WindowOptions window;
  bool byDocument = false; ///< passages are documents; all data must then have document boundaries
};

class EvaluationData {
public:
  /// The tokens outlive it. Throws Error (BadInput) for fewer than two tokens, for a token found outside the vocabulary
  /// (TokenData::checkVocabulary), and with `byDocument` for data without document boundaries.
  EvaluationData(const TokenData &tokens, const EvaluationOptions &options);

  /// Does not count empty documents.
  size_t passages() const { return ends.size(); }
  int64_t tokensOf(size_t passage) const;
  int64_t windowsOf(size_t passage) const;

  /// Writes into `values` the slice of the micro-batch whose rows are the windows of a passage from `firstWindow` on.
  /// Rows and columns after them are padding.
  void fill(SamplePart part, size_t passage, int64_t firstWindow, const BatchSlice &slice,
            std::span<int32_t> values) const;

private:
  void check() const;
  size_t beginOf(size_t passage) const { return passage ? ends[passage - 1] : 0; }

  const TokenData &tokens;
  EvaluationOptions options;
  std::vector<size_t> ends; ///< of the passages, which are contiguous
};

} // namespace dtc
