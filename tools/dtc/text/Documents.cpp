#include "tools/dtc/text/Documents.h"

#include "runtime/data/text.h"
#include "runtime/support/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace dtc {

bool isJsonLines(const std::string &path) {
  std::string_view name = path;
  if (name.ends_with(".gz"))
    name.remove_suffix(3);
  return name.ends_with(".jsonl");
}

std::string placeOf(const std::vector<std::string> &paths, const Document &document) {
  return fmt::format("{}:{}", paths[document.file], document.line);
}

namespace {
/// Turns lines or parts of one file into documents.
class DocumentReader {
public:
  DocumentReader(const std::vector<std::string> &paths, size_t file, const DocumentOptions &options,
                 const std::function<void(Document)> &receive)
      : paths(paths), options(options), receive(receive), file(file),
        isJson(options.isJson || isJsonLines(paths[file])) {}

  /// Returns how many documents were empty.
  uint64_t read() {
    if (!isJson && !options.atBlankLines)
      readWhole();
    else
      readLines();
    return empty;
  }

private:
  [[noreturn]] void refuse(const std::string &why) const {
    throw Error(ExitCode::BadInput, fmt::format("{}: {}", placeOf(paths, {{}, file, begin ? begin : 1}), why));
  }

  /// Adds to a document, unless it grows too large.
  void add(std::string &text, std::string_view part) const {
    if (text.size() + part.size() > MostDocumentBytes)
      refuse(fmt::format("a document of more than {} MiB; {}", MostDocumentBytes >> 20,
                         isJson ? "cut it into several lines"
                                : "cut the text at its blank lines by --documents blank-line, "
                                  "or into several files"));
    text += part;
  }

  void give(std::string text) {
    if (text.empty())
      ++empty;
    else
      receive({std::move(text), file, begin});
  }

  void readWhole() {
    std::string text;
    begin = 1;
    readText(paths[file], [&](std::string_view block) { add(text, block); });
    give(std::move(text));
  }

  void readLines() {
    std::string line;
    uint64_t number = 1;
    auto end = [&] {
      takeLine(line, number++);
      line.clear();
    };
    begin = isJson ? 1 : 0;
    readText(paths[file], [&](std::string_view block) {
      for (size_t newline; (newline = block.find('\n')) != block.npos; block.remove_prefix(newline + 1)) {
        add(line, block.substr(0, newline));
        end();
      }
      add(line, block);
    });
    if (!line.empty())
      end();
    if (!isJson && begin != 0)
      endParagraph();
  }

  void takeLine(const std::string &line, uint64_t number) {
    bool isBlank = std::ranges::all_of(line, [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
    if (isJson) {
      begin = number;
      if (!isBlank)
        give(fieldOf(line));
      begin = number + 1; // the line to name in case it is too long
    } else if (!isBlank) {
      if (begin == 0)
        begin = number;
      else
        paragraph += '\n';
      add(paragraph, line);
    } else if (begin != 0) {
      endParagraph();
    }
  }

  void endParagraph() {
    give(std::move(paragraph));
    paragraph.clear();
    begin = 0;
  }

  std::string fieldOf(const std::string &line) const {
    nlohmann::json object;
    try {
      object = nlohmann::json::parse(line);
    } catch (const nlohmann::json::parse_error &error) {
      refuse(fmt::format("no JSON: {}", withoutNumber(error.what())));
    }
    if (!object.is_object())
      refuse(fmt::format("a JSON {} where an object is needed, with the text in its field '{}'", object.type_name(),
                         options.field));
    if (options.field.empty())
      return line;
    auto found = object.find(options.field);
    if (found == object.end()) {
      std::vector<std::string> keys;
      for (const auto &[key, value] : object.items())
        if (keys.size() < 8)
          keys.push_back("'" + key + "'");
      refuse(fmt::format("no field '{}' in this line, which has {}; name the one with the text by --field", options.field,
                         keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", "))));
    }
    if (!found->is_string())
      refuse(fmt::format("field '{}' is a JSON {}; it must be a string", options.field, found->type_name()));
    return found->get<std::string>();
  }

  /// The library's messages begin with a number in brackets.
  static std::string withoutNumber(std::string_view message) {
    size_t bracket = message.find("] ");
    return std::string(bracket == message.npos ? message : message.substr(bracket + 2));
  }

  const std::vector<std::string> &paths;
  const DocumentOptions &options;
  const std::function<void(Document)> &receive;
  size_t file;
  bool isJson;
  uint64_t begin = 0; ///< first line of the current document; 0: there is none
  uint64_t empty = 0;
  std::string paragraph;
};
} // namespace

uint64_t readDocuments(const std::vector<std::string> &paths, const DocumentOptions &options,
                       const std::function<void(Document)> &receive) {
  uint64_t empty = 0;
  for (size_t file = 0; file < paths.size(); ++file)
    empty += DocumentReader(paths, file, options, receive).read();
  return empty;
}

} // namespace dtc
