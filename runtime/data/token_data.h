// Several token files laid end to end: one sequence of tokens, in the order in which they are given.
#pragma once

#include "runtime/data/token_file.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtc {

class TokenData {
public:
  /// No tokens.
  TokenData() = default;
  /// Throws Error (BadInput) as TokenFile does.
  explicit TokenData(const std::vector<std::string> &paths, std::optional<TokenFile::Format> format = std::nullopt);

  size_t size() const { return ends.empty() ? 0 : ends.back(); }
  /// Whether the token at each position counts as a target, for tokens that have a mask; all do without.
  bool hasMask() const;
  /// Whether a file tells where its documents begin.
  bool hasDocuments() const;
  /// The positions in [first, first + count) where documents are known to begin, ascending. The begin of a file that
  /// tells nothing of documents is one only behind a file that does: one document may go on from shard to shard.
  std::vector<size_t> documentsIn(size_t first, size_t count) const;
  /// How many tokens count as targets.
  size_t counted() const;
  /// "token file 'a.bin'", or "token files 'a.bin' and 2 more": for messages.
  std::string describe() const;
  const std::vector<TokenFile> &files() const { return parts; }

  /// Throws Error (BadInput) for a token that is not below `vocabulary` in what sampleOf() takes of each file. Those
  /// that it passes over are looked at when they are copied: no rank reads much that it does not need.
  void checkVocabulary(int64_t vocabulary) const;

  /// Writes the tokens from `first` on. Throws Error (BadInput) for one that is not below `vocabulary`.
  void copyTokens(size_t first, std::span<int32_t> out, int64_t vocabulary) const;
  /// The same as targets: `ignored` where a token does not count.
  void copyTargets(size_t first, std::span<int32_t> out, int32_t ignored, int64_t vocabulary) const;

private:
  template <typename Read> void forEach(size_t first, std::span<int32_t> out, Read read) const;

  std::vector<TokenFile> parts;
  std::vector<size_t> ends; ///< tokens up to and with each file
};

} // namespace dtc
