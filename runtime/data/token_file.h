// Token files, mapped into memory: 16-bit tokens, in one of two formats that need no telling apart by the user.
//   llm.c    1024 bytes of header (256 int32, little-endian: magic 20240520, version 1, token count, zeros), then
//   tokens nanoGPT  tokens, nothing else
// `dtc data` writes the first.
#pragma once

#include "runtime/data/mapped_file.h"

#include <cstdint>
#include <span>
#include <string>

namespace dtc {

class TokenFile {
public:
  enum class Format { LlmC, NanoGpt };

  /// Throws Error (BadInput) when the file is missing, of odd length, or contradicts its header.
  explicit TokenFile(const std::string &path);

  const std::string &path() const { return file.path(); }
  Format format() const { return layout; }
  std::span<const uint16_t> tokens() const { return content; }

  /// Throws Error (BadInput) naming position and value of the first token that is not below `vocabulary`.
  void checkVocabulary(int64_t vocabulary) const;

private:
  MappedFile file;
  Format layout;
  std::span<const uint16_t> content;
};

/// Writes a file in llm.c's format. Throws Error (BadInput) for 2^31 tokens or more, which its header cannot tell, and
/// Error (Runtime) when the file cannot be written.
void writeTokenFile(const std::string &path, std::span<const uint16_t> tokens);

} // namespace dtc
