// Token files, mapped into memory, in two formats:
//   llm.c    1024 bytes of header (256 int32, little-endian: magic, version, token count, zeros), then tokens: 16 bits
//            each for magic 20240520 and version 1, 32 bits for magic 20240801 and version 7
//   nanoGPT  16-bit tokens, nothing else. Any file of even size could be one, so it is read as one only when asked for.
// `dtc data pack` writes the first, with 16 bits.
//
// Beside a token file may lie its loss mask, under its name with ".mask" appended: one byte for each token, 1 where the
// token counts as a target and 0 where it does not.
#pragma once

#include "runtime/abi/atomic_file.h"
#include "runtime/abi/mapped_file.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtc {

/// What is looked at of much data to know it again, and to see early what is wrong with it: all of up to 64 MiB; of
/// more, 1024 blocks of 64 KiB, evenly spaced from the first to the last.
std::vector<std::span<const std::byte>> sampleOf(std::span<const std::byte> bytes);

class TokenFile {
public:
  enum class Format { LlmC, NanoGpt };

  /// Throws Error (BadInput) when the file is missing, is not of the format or contradicts its header, and when its
  /// mask does not fit it.
  explicit TokenFile(const std::string &path, Format format = Format::LlmC);

  const std::string &path() const { return file.path(); }
  Format format() const { return layout; }
  int tokenBits() const { return 8 * width; }
  size_t size() const { return content.size() / width; }
  uint32_t operator[](size_t index) const;

  /// The tokens and the mask as they lie in their files, without headers; no bytes without a mask.
  std::span<const std::byte> bytes() const { return content; }
  std::span<const std::byte> maskBytes() const { return mask ? mask->bytes() : std::span<const std::byte>(); }

  bool hasMask() const { return mask.has_value(); }
  /// Whether the token at `index` counts as a target.
  bool counts(size_t index) const { return !mask || mask->bytes()[index] != std::byte{0}; }

  /// Throws Error (BadInput) naming position and value of the first token that is not below `vocabulary`.
  void checkVocabulary(int64_t vocabulary) const { checkVocabulary(vocabulary, 0, size()); }
  /// The same for `count` tokens from `first` on.
  void checkVocabulary(int64_t vocabulary, size_t first, size_t count) const;

private:
  void readHeader();
  void readMask();
  [[noreturn]] void refuse(const std::string &why) const;

  MappedFile file;
  Format layout;
  int width = 2; ///< bytes of a token
  std::span<const std::byte> content;
  std::optional<MappedFile> mask;
};

/// "llm.c" or "nanogpt", as the command lines name the formats; nothing for another word.
std::optional<TokenFile::Format> parseTokenFormat(std::string_view name);

/// Writes a file in llm.c's format with 16-bit tokens, piece by piece; it appears whole or not at all.
class TokenFileWriter {
public:
  explicit TokenFileWriter(const std::string &path);

  /// Throws Error (BadInput) at 2^31 tokens, which the header cannot tell, and Error (Runtime) when the file cannot be
  /// written.
  void append(std::span<const uint16_t> tokens);
  void publish();

private:
  std::string path;
  AtomicFile file;
  uint64_t count = 0;
};

/// All at once.
void writeTokenFile(const std::string &path, std::span<const uint16_t> tokens);

} // namespace dtc
