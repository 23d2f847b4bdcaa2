// Token files, mapped into memory, in three formats:
//   llm.c     1024 bytes of header (256 int32, little-endian: magic, version, token count, zeros), then tokens: 16 bits
//             each for magic 20240520 and version 1, 32 bits for magic 20240801 and version 7
//   Megatron  tokens of 16 or 32 bits, nothing else, in X.bin; X.idx next to it has their width and where documents
//             begin (runtime/data/document_index.h)
//   nanoGPT   16-bit tokens, nothing else. Any file of even size could be one, so this format must be requested.
//
// A token file may have a loss mask next to it, under its name with ".mask" appended: one byte per token, 1 where the
// token counts as a target and 0 where it does not.
#pragma once

#include "runtime/data/document_index.h"
#include "runtime/support/mapped_file.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtc {

/// The sample of data that is used to recognize it and to find errors early: all of it up to 64 MiB; otherwise 1024
/// blocks of 64 KiB, evenly spaced from the first to the last.
std::vector<std::span<const std::byte>> sampleOf(std::span<const std::byte> bytes);

class TokenFile {
public:
  enum class Format { LlmC, NanoGpt, Megatron };

  /// Without a format it is detected from the file; that does not work for nanoGPT's. Throws Error (BadInput) when the
  /// file is missing, is not of the format or contradicts its header or index, and when its mask does not fit it.
  explicit TokenFile(const std::string &path, std::optional<Format> format = std::nullopt);

  const std::string &path() const { return file.path(); }
  Format format() const { return layout; }
  int tokenBits() const { return 8 * width; }
  size_t size() const { return content.size() / width; }
  uint32_t operator[](size_t index) const;

  /// The bytes of the tokens and of the mask as in their files, without headers; empty if there is no mask.
  std::span<const std::byte> bytes() const { return content; }
  std::span<const std::byte> maskBytes() const { return mask ? mask->bytes() : std::span<const std::byte>(); }

  /// Where documents begin; null if the format does not say.
  const DocumentIndex *documents() const { return index ? &*index : nullptr; }

  bool hasMask() const { return mask.has_value(); }
  /// Whether the token at `index` counts as a target.
  bool counts(size_t index) const { return !mask || mask->bytes()[index] != std::byte{0}; }

  /// Throws Error (BadInput) naming position and value of the first token that is not below `vocabulary`.
  void checkVocabulary(int64_t vocabulary) const { checkVocabulary(vocabulary, 0, size()); }
  /// The same for `count` tokens from `first` on.
  void checkVocabulary(int64_t vocabulary, size_t first, size_t count) const;

private:
  void readMegatron();
  void readHeader();
  void readBare();
  void readMask();
  [[noreturn]] void refuse(const std::string &why) const;

  MappedFile file;
  Format layout;
  int width = 2; ///< bytes of a token
  std::span<const std::byte> content;
  std::optional<DocumentIndex> index;
  std::optional<MappedFile> mask;
};

/// The formats by their names on command lines.
const std::map<std::string, TokenFile::Format> &tokenFormats();
/// "llm.c", "megatron" or "nanogpt"; nullopt for "auto".
std::optional<TokenFile::Format> parseTokenFormat(const std::string &name);
/// The values of --data-format.
std::vector<std::string> dataFormats();
inline constexpr const char *dataFormatHelp =
    "Format of token files; auto: what a file's header or index says; nanogpt: 16-bit tokens without a header";
/// The format's name in messages.
std::string_view nameOf(TokenFile::Format format);

} // namespace dtc
