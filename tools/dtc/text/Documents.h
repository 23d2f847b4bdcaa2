// The documents of text files, one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dtc {

struct DocumentOptions {
  std::string field = "text"; ///< of a line of JSON; empty: the whole line
  bool isJson = false;        ///< whatever the files' names are
  bool atBlankLines = false;  ///< a text file is cut into documents there; else it is one
};

struct Document {
  std::string text;
  /// Where it begins. A text has the numbers of lines too.
  size_t file = 0;
  uint64_t line = 0;
};

/// More bytes in one document are an error: it is held in memory, and its tokens take many times as much.
inline constexpr size_t MostDocumentBytes = 64 << 20;

/// Whether the file has a document a line, by its name: .jsonl, also compressed.
bool isJsonLines(const std::string &path);

/// Hands on the documents of the files in their order; empty ones are left out. Returns how many these were. Throws
/// Error (BadInput) naming file and line for a line that is no JSON object or lacks the field, and for a document that
/// is too large.
uint64_t readDocuments(const std::vector<std::string> &paths, const DocumentOptions &options,
                       const std::function<void(Document)> &receive);

/// "corpus.jsonl:17".
std::string placeOf(const std::vector<std::string> &paths, const Document &document);

} // namespace dtc
