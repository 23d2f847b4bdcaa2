#include "tools/dtc/Pack.h"

#include "runtime/abi/error.h"
#include "runtime/abi/write_error.h"
#include "runtime/data/text.h"
#include "runtime/data/token_writer.h"
#include "tools/dtc/Compiler.h"
#include "tools/dtc/Documents.h"
#include "tools/dtc/Tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

namespace fs = std::filesystem;

namespace dtc {

namespace {

/// Counts what it writes.
class Output {
public:
  Output(const PackOptions &options, int64_t vocabulary)
      : layout(layoutFor(tokenFormats().at(options.format), vocabulary)), writer(options.output, layout) {
    packed.format = layout.format;
    packed.bits = layout.bits;
    packed.vocabulary = vocabulary;
  }

  template <typename Token> void append(std::span<const Token> tokens) {
    writer.append(tokens);
    length += tokens.size();
  }

  void endDocument() {
    if (length == 0) {
      ++packed.empty;
      return;
    }
    writer.endDocument();
    packed.tokens += length;
    ++packed.documents;
    packed.longest = std::max(packed.longest, length);
    length = 0;
  }

  Packed publish(uint64_t empty) {
    writer.publish();
    packed.empty += empty;
    return packed;
  }

private:
  TokenLayout layout;
  TokenFileWriter writer;
  Packed packed;
  uint64_t length = 0; ///< of the document under way
};

/// As outputs are tried: before the first text is read.
std::unique_ptr<Output> openOutput(const PackOptions &options, int64_t vocabulary) {
  std::unique_ptr<Output> output;
  asOption("-o " + options.output, [&] {
    requireNoInput(options.output, options.inputs);
    if (std::optional<std::string> index = indexPathOf(options.output); index && options.format == "megatron")
      requireNoInput(*index, options.inputs);
    requireNoInput(options.output, {options.tokenizer});
    output = std::make_unique<Output>(options, vocabulary);
  });
  return output;
}

DocumentOptions documentOptions(const PackOptions &options) {
  DocumentOptions result;
  result.isJson = !options.field.empty();
  if (result.isJson)
    result.field = options.field;
  result.atBlankLines = options.documents == "blank-line";
  return result;
}

Packed packBytes(const PackOptions &options) {
  if (options.end != "auto" && options.end != "none")
    throw Error(ExitCode::Usage,
                fmt::format("--end-of-document {}: bytes are tokens without --tokenizer, and no byte ends "
                            "a document",
                            options.end));
  std::unique_ptr<Output> output = openOutput(options, options.vocabulary ? options.vocabulary : 256);
  DocumentOptions documents = documentOptions(options);
  uint64_t empty = 0;
  auto append = [&](std::string_view text) { output->append(std::span<const uint16_t>(byteTokens(text))); };
  for (const std::string &input : options.inputs) {
    if (documents.isJson || documents.atBlankLines || isJsonLines(input)) {
      empty += readDocuments({input}, documents, [&](const Document &document) {
        append(document.text);
        output->endDocument();
      });
    } else { // however large
      readText(input, append);
      output->endDocument();
    }
  }
  return output->publish(empty);
}

/// The file in a folder as Hugging Face's tools write it, or the file that was named.
std::string tokenizerFile(const std::string &path) {
  if (!fs::is_directory(path))
    return path;
  if (std::string file = fs::path(path) / "tokenizer.json"; fs::exists(file))
    return file;
  throw Error(ExitCode::BadInput, fmt::format("--tokenizer {}: no tokenizer.json in it; transformers makes one: "
                                              "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
                                              path));
}

std::vector<std::string> tokenizerCommand(const PackOptions &options) {
  std::string file = tokenizerFile(options.tokenizer);
  if (!fs::exists(file))
    throw Error(ExitCode::BadInput, fmt::format("--tokenizer {}: there is no such file or folder", options.tokenizer));
  return {"python3", partPath("dtc-tokenize.py"), file, options.end};
}

void requireFits(const PackOptions &options, int64_t vocabulary) {
  if (options.vocabulary && vocabulary > options.vocabulary)
    throw Error(
        ExitCode::BadInput,
        fmt::format("--tokenizer {}: its tokens go up to {}, but the model's vocabulary has {} (--vocabulary); take "
                    "the tokenizer that the model was made for, or a model with more entries",
                    options.tokenizer, vocabulary - 1, options.vocabulary));
}

Packed packTokens(const PackOptions &options) {
  Tokenizer tokenizer(tokenizerCommand(options));
  requireFits(options, tokenizer.vocabulary());
  std::unique_ptr<Output> output = openOutput(options, tokenizer.vocabulary());
  uint64_t empty = 0;
  auto produce = [&](const auto &give) { empty = readDocuments(options.inputs, documentOptions(options), give); };
  auto receive = [&](std::span<const uint32_t> tokens) {
    output->append(tokens);
    // Some tokenizers add it themselves.
    if (std::optional<uint32_t> end = tokenizer.end(); end && !tokens.empty() && tokens.back() != *end)
      output->append(std::span<const uint32_t>(&*end, 1));
    output->endDocument();
  };
  tokenizer.run(produce, receive, [&](const Document &document) { return placeOf(options.inputs, document); });
  return output->publish(empty);
}

} // namespace

Packed pack(const PackOptions &options) { return options.tokenizer.empty() ? packBytes(options) : packTokens(options); }

} // namespace dtc
