// The index that Megatron-LM's tools write for a file of tokens: X.idx for X.bin. It holds the type of the tokens and
// where documents begin. Little-endian, without padding:
//
//   "MMIDIDX\0\0"   9 bytes
//   version         uint64, 1
//   type            uint8: 4 for int32, 8 for uint16; the format has others, which no tokenizer needs
//   sequences       uint64
//   boundaries      uint64, the number of documents plus one
//   lengths         int32 for each sequence, in tokens
//   pointers        int64 for each sequence: its first byte in X.bin
//   boundaries      int64 for each: the number of a document's first sequence; the last is the number of sequences
//
// Anything after that (a mode for each sequence) is ignored. X.bin holds only the tokens. Training reads it in file
// order, so its sequences must be contiguous and in order.
#pragma once

#include "runtime/support/mapped_file.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

/// "X.idx" for "X.bin"; nullopt for any other name.
std::optional<std::string> indexPathOf(const std::string &path);

class DocumentIndex {
public:
  /// Whether a file begins like an index.
  static bool isIndex(std::string_view text);
  /// The index for the tokens in `path`; nullopt if there is none or the file is something else.
  static std::optional<DocumentIndex> beside(const std::string &path, size_t tokenBytes);

  /// Throws Error (BadInput) naming the index and what is wrong with it: when it is damaged, has an unsupported type of
  /// tokens, or does not fit `tokenBytes` bytes of tokens. With more than a million documents it checks only every
  /// n-th; the others are checked when they are used.
  DocumentIndex(const std::string &path, size_t tokenBytes);

  int tokenWidth() const { return width; } ///< bytes
  size_t documents() const { return documentCount; }
  /// The first token of document `document`; for documents(), the number of tokens.
  size_t documentBegin(size_t document) const;
  /// The first tokens of the documents that begin in [first, first + count), ascending. Empty documents are left out.
  std::vector<size_t> beginsIn(size_t first, size_t count) const;
  std::span<const std::byte> bytes() const { return file.bytes(); }

private:
  [[noreturn]] void refuse(const std::string &why) const;
  void readHeader();
  void checkDocuments() const;
  void checkSequence(size_t sequence) const;
  template <typename T> T read(size_t offset) const;
  /// The first byte of sequence `sequence`; for the number of sequences, the end.
  size_t byteOf(size_t sequence) const;

  MappedFile file;
  size_t tokenBytes;
  int width = 0;
  size_t sequences = 0, documentCount = 0;
  size_t lengths = 0, pointers = 0, boundaries = 0; ///< where in the file they begin
};

/// Builds the bytes of an index of documents with one sequence each.
class DocumentIndexBuilder {
public:
  explicit DocumentIndexBuilder(int width) : width(width) {}
  void add(int32_t tokens) { lengths.push_back(tokens); }
  std::string bytes() const;

private:
  int width;
  std::vector<int32_t> lengths;
};

} // namespace dtc
