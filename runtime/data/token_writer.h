// Writes token files, piece by piece: each appears whole or not at all.
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

/// The layout of tokens below `vocabulary` in `format`: the narrower width where it fits. Throws Error (Usage) for a
/// vocabulary that nanoGPT's 16 bits do not hold.
TokenLayout layoutFor(TokenFile::Format format, int64_t vocabulary);

class TokenFileWriter {
public:
  /// Throws Error (BadInput) where a mask or an index of this name lies that would go on to say something of the new
  /// tokens, and for Megatron's format a name that does not end in .bin.
  explicit TokenFileWriter(const std::string &path, TokenLayout layout = {});

  /// Throws Error (BadInput) at 2^31 tokens in llm.c's format, whose header cannot tell them, and in a document; and
  /// Error (Runtime) when the file cannot be written. `counts` has a 1 for each token that counts as a target and a 0
  /// for others; it is given, and as long, when the layout is masked.
  void append(std::span<const uint32_t> tokens, std::span<const uint8_t> counts = {});
  void append(std::span<const uint16_t> tokens);
  /// What was appended since the last end is a document.
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
  std::string buffer, maskBuffer; ///< not yet in the files
  uint64_t tokens = 0, documentBegin = 0;
};

/// 16-bit tokens in llm.c's format, all at once.
void writeTokenFile(const std::string &path, std::span<const uint16_t> tokens);

} // namespace dtc
