// The documents of text files, one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dtc {

struct DocumentOptions {
  std::string field = "text"; ///< of each line of JSON; empty: the whole line
  bool isJson = false;        ///< whatever the files' names are
  bool atBlankLines = false;  ///< a text file is split into documents there; otherwise it is one document
};

struct Document {
  std::string text;
  /// Where it begins. Parts of a text file have line numbers too.
  size_t file = 0;
  uint64_t line = 0;
};

/// A larger document is an error: it is held in memory, and its tokens take many times as much.
inline constexpr size_t MostDocumentBytes = 64 << 20;

/// Whether the file has one document per line, by its name: .jsonl, also compressed.
bool isJsonLines(const std::string &path);

/// Passes on the documents of the files in their order; empty ones are left out. Returns how many were left out. Throws
/// Error (BadInput) naming file and line for a line that is not a JSON object or lacks the field, and for a document
/// that is too large.
uint64_t readDocuments(const std::vector<std::string> &paths, const DocumentOptions &options,
                       const std::function<void(Document)> &receive);

/// "corpus.jsonl:17".
std::string placeOf(const std::vector<std::string> &paths, const Document &document);

} // namespace dtc
