// Tokens to evaluate on, each of them a target once: cut from the front into windows of sequence_length, and what is
// left is a shorter window. Neighbouring windows share a token, as training's do (sampler.h).
//
// The windows are those of passages: all tokens are one, or each document is, so that no window reaches from one
// document into the next. A window begins without context: its first targets are foretold from few tokens.
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
  bool byDocument = false; ///< passages are documents, which all data must then tell
};

class EvaluationData {
public:
  /// The tokens outlive it. Throws Error (BadInput) for fewer than two tokens, for one that is seen to be outside the
  /// vocabulary (TokenData::checkVocabulary), and for data that do not tell where documents begin though they are to
  /// be told apart.
  EvaluationData(const TokenData &tokens, const EvaluationOptions &options);

  /// Empty documents are none.
  size_t passages() const { return ends.size(); }
  int64_t tokensOf(size_t passage) const;
  int64_t windowsOf(size_t passage) const;

  /// Writes into `values` the slice of the micro-batch whose rows are the windows of a passage from `firstWindow` on.
  /// Rows and columns behind them are padding.
  void fill(SamplePart part, size_t passage, int64_t firstWindow, const BatchSlice &slice,
            std::span<int32_t> values) const;

private:
  void check() const;
  size_t beginOf(size_t passage) const { return passage ? ends[passage - 1] : 0; }

  const TokenData &tokens;
  EvaluationOptions options;
  std::vector<size_t> ends; ///< of the passages, which lie one after the other
};

} // namespace dtc
