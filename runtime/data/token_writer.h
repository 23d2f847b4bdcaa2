// Writes token files piece by piece. Each appears complete or not at all.
#pragma once

#include "runtime/data/token_file.h"
#include "runtime/support/output_file.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace dtc {

struct TokenLayout {
  TokenFile::Format format = TokenFile::Format::LlmC;
  int bits = 16;
  bool masked = false; ///< a loss mask comes with it
};

/// The layout of tokens below `vocabulary` in `format`, with the narrower width if it fits. Throws Error (Usage) for a
/// vocabulary that nanoGPT's 16 bits do not hold.
TokenLayout layoutFor(TokenFile::Format format, int64_t vocabulary);

class TokenFileWriter {
public:
  /// Throws Error (BadInput) if a mask or an index of this name exists that would wrongly apply to the new tokens, and
  /// for Megatron's format if the name does not end in .bin.
  explicit TokenFileWriter(const std::string &path, TokenLayout layout = {});

  /// Throws Error (BadInput) at 2^31 tokens in llm.c's format, whose header cannot hold the count, or in one document;
  /// and Error (Runtime) when the file cannot be written. `counts` has a 1 for each token that counts as a target and a
  /// 0 for others. It must have the length of `tokens` if the layout is masked, and be empty otherwise.
  void append(std::span<const uint32_t> tokens, std::span<const uint8_t> counts = {});
  void append(std::span<const uint16_t> tokens);
  /// Ends a document: the tokens appended since the last call.
  void endDocument();
  void publish();

private:
  void requireNothingBeside() const;
  void count(uint64_t more);
  template <typename T> void add(std::span<const T> values);
  void flush();

  std::string path;
  TokenLayout layout;
  AtomicFile file;
  std::optional<AtomicFile> maskFile, indexFile;
  DocumentIndexBuilder index;
  std::string buffer, maskBuffer; ///< not yet written to the files
  uint64_t tokens = 0, documentBegin = 0;
};

/// 16-bit tokens in llm.c's format, all at once.
void writeTokenFile(const std::string &path, std::span<const uint16_t> tokens);

} // namespace dtc
