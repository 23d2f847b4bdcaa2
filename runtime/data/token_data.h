// Several token files laid end to end in the given order: one sequence of tokens.
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
  /// Whether the tokens have a loss mask; without one, every token counts as a target.
  bool hasMask() const;
  /// Whether any file has document boundaries.
  bool hasDocuments() const;
  /// The positions in [first, first + count) where documents are known to begin, ascending. The start of a file without
  /// boundaries counts only after a file with them: one document may continue from shard to shard.
  std::vector<size_t> documentsIn(size_t first, size_t count) const;
  /// How many tokens count as targets.
  size_t counted() const;
  /// "token file 'a.bin'", or "token files 'a.bin' and 2 more": for messages.
  std::string describe() const;
  const std::vector<TokenFile> &files() const { return parts; }

  /// Throws Error (BadInput) for a token that is not below `vocabulary`, among those that sampleOf() takes from each
  /// file. Other tokens are checked when they are copied, so no rank reads much data that it does not need.
  void checkVocabulary(int64_t vocabulary) const;

  /// Writes the tokens from `first` on. Throws Error (BadInput) for one that is not below `vocabulary`.
  void copyTokens(size_t first, std::span<int32_t> out, int64_t vocabulary) const;
  /// The same as targets: `ignored` where a token does not count.
  void copyTargets(size_t first, std::span<int32_t> out, int32_t ignored, int64_t vocabulary) const;

private:
  template <typename Read> void forEach(size_t first, std::span<int32_t> out, Read read) const;

  std::vector<TokenFile> parts;
  std::vector<size_t> ends; ///< tokens up to and including each file
};

} // namespace dtc
