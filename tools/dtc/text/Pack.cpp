#include "tools/dtc/text/Pack.h"

#include "runtime/data/text.h"
#include "runtime/data/token_writer.h"
#include "runtime/support/error.h"
#include "runtime/support/write_error.h"
#include "tools/dtc/Compiler.h"
#include "tools/dtc/text/Balance.h"
#include "tools/dtc/text/Documents.h"
#include "tools/dtc/text/Tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

namespace dtc {

namespace {

/// Counts what it writes, and pads so that documents do not cross the boundaries of sequences.
class Output {
public:
  Output(const PackOptions &options, int64_t vocabulary)
      : layout(layoutOf(options, vocabulary)), window(options.sequenceLength), writer(options.output, layout) {
    packed.format = layout.format;
    packed.bits = layout.bits;
    packed.masked = layout.masked;
    packed.vocabulary = vocabulary;
  }

  /// Appends part of a document; without `counts` all its tokens count.
  template <typename Token> void append(std::span<const Token> tokens, std::span<const uint8_t> counts = {}) {
    if (!layout.masked)
      writer.append(tokens);
    else
      writer.append(std::vector<uint32_t>(tokens.begin(), tokens.end()),
                    counts.empty() ? std::vector<uint8_t>(tokens.size(), 1)
                                   : std::vector(counts.begin(), counts.end()));
    length += tokens.size();
    packed.counted += counts.empty() ? tokens.size() : static_cast<size_t>(std::ranges::count(counts, 1));
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

  /// Called before a document of this many tokens: begins a new sequence where it does not fit into the rest of one.
  void makeRoom(size_t tokens, uint32_t padding) {
    if (window != 0 && packed.tokens % window + tokens > window)
      pad(window - packed.tokens % window, padding);
  }

  /// Pads the current sequence to its end; does nothing at a boundary.
  void fillUp(uint32_t padding) {
    if (uint64_t missing = (window - packed.tokens % window) % window)
      pad(missing, padding);
  }

  Packed publish(uint64_t empty, uint32_t padding = 0) {
    if (window != 0) // plus the token that the last window shares with the next
      pad((window - packed.tokens % window) % window + 1, padding);
    writer.publish();
    packed.empty += empty;
    return packed;
  }

private:
  static TokenLayout layoutOf(const PackOptions &options, int64_t vocabulary) {
    TokenLayout layout = layoutFor(tokenFormats().at(options.format), vocabulary);
    layout.masked = options.chat || options.sequenceLength != 0;
    return layout;
  }

  void pad(uint64_t count, uint32_t padding) {
    writer.append(std::vector<uint32_t>(count, padding), std::vector<uint8_t>(count, 0));
    writer.endDocument();
    packed.tokens += count;
  }

  TokenLayout layout;
  uint64_t window;
  TokenFileWriter writer;
  Packed packed;
  uint64_t length = 0; ///< of the current document
};

/// Writes documents in an order in which samples cost about the same attention: each time that enough of them have
/// come.
class BalancedOutput {
public:
  BalancedOutput(Output &output, uint64_t window, uint32_t padding)
      : output(output), window(window), padding(padding) {}

  /// Without `counts` all tokens count. The document has at most as many tokens as a sample.
  void add(std::vector<uint32_t> tokens, std::vector<uint8_t> counts) {
    held += tokens.size();
    lengths.push_back(tokens.size());
    documents.push_back({std::move(tokens), std::move(counts)});
    if (held >= std::max(LeastTokens, LeastSamples * window))
      flush();
  }

  void flush() {
    for (const std::vector<size_t> &sample : balancedSamples(lengths, window)) {
      for (size_t number : sample) {
        output.append(std::span<const uint32_t>(documents[number].tokens), documents[number].counts);
        output.endDocument();
      }
      output.fillUp(padding);
    }
    documents.clear();
    lengths.clear();
    held = 0;
  }

private:
  /// That are packed at once: enough to mix long documents and short ones, few enough to hold in memory.
  static constexpr uint64_t LeastTokens = 1 << 20, LeastSamples = 64;

  struct Held {
    std::vector<uint32_t> tokens;
    std::vector<uint8_t> counts;
  };

  Output &output;
  uint64_t window;
  uint32_t padding;
  std::vector<Held> documents;
  std::vector<size_t> lengths;
  uint64_t held = 0;
};

/// Opens the output before the first text is read, so that errors come early.
std::unique_ptr<Output> openOutput(const PackOptions &options, int64_t vocabulary) {
  std::unique_ptr<Output> output;
  asOption("-o " + options.output, [&] {
    requireNoInput(options.output, options.inputs);
    if (std::optional<std::string> index = indexPathOf(options.output); index && options.format == "megatron")
      requireNoInput(*index, options.inputs);
    requireNoInput(options.output, {options.tokenizer});
    if (options.chat || options.sequenceLength != 0)
      requireNoInput(options.output + ".mask", options.inputs);
    output = std::make_unique<Output>(options, vocabulary);
  });
  return output;
}

DocumentOptions documentOptions(const PackOptions &options) {
  DocumentOptions result;
  result.isJson = options.chat || !options.field.empty();
  if (result.isJson)
    result.field = options.chat ? "" : options.field;
  result.atBlankLines = options.documents == "blank-line";
  return result;
}

void requireFits(const PackOptions &options, int64_t vocabulary) {
  if (!options.vocabulary || vocabulary <= options.vocabulary)
    return;
  std::string which = options.tokenizer.empty() ? "without --tokenizer" : "--tokenizer " + options.tokenizer;
  throw Error(
      ExitCode::BadInput,
      fmt::format("{}: its tokens go up to {}, but the model's vocabulary has {} (--vocabulary); take the tokenizer "
                  "that the model was made for, or a model with more entries",
                  which, vocabulary - 1, options.vocabulary));
}

Packed packBytes(const PackOptions &options) {
  if (options.chat || options.sequenceLength != 0)
    throw Error(ExitCode::Usage, fmt::format("{}: needs --tokenizer", options.chat ? "--chat" : "--sequence-length"));
  if (options.end != "auto" && options.end != "none")
    throw Error(ExitCode::Usage,
                fmt::format("--end-of-document {}: bytes are tokens without --tokenizer, and no byte ends "
                            "a document",
                            options.end));
  constexpr int64_t Bytes = 256;
  requireFits(options, Bytes);
  std::unique_ptr<Output> output = openOutput(options, Bytes);
  DocumentOptions documents = documentOptions(options);
  uint64_t empty = 0;
  auto append = [&](std::string_view text) { output->append(std::span<const uint16_t>(byteTokens(text))); };
  for (const std::string &input : options.inputs) {
    if (documents.isJson || documents.atBlankLines || isJsonLines(input)) {
      empty += readDocuments({input}, documents, [&](const Document &document) {
        append(document.text);
        output->endDocument();
      });
    } else { // of any size
      readText(input, append);
      output->endDocument();
    }
  }
  return output->publish(empty);
}

std::vector<std::string> tokenizerCommand(const PackOptions &options) {
  std::string file = tokenizerFile(options.tokenizer);
  if (file.ends_with(".model")) {
    if (options.chat)
      throw Error(ExitCode::BadInput,
                  fmt::format("--chat: '{}' is a model of sentencepiece, which has no chat template; give "
                              "the folder of a model with tokenizer.json",
                              file));
    return {partPath("dtc-sentencepiece"), file, options.end};
  }
  std::vector<std::string> command = {"python3", partPath("dtc-tokenize.py"), file, options.end};
  if (options.chat)
    command.push_back(options.field.empty() ? "messages" : options.field);
  return command;
}

Packed packTokens(const PackOptions &options) {
  Tokenizer tokenizer(tokenizerCommand(options));
  requireFits(options, tokenizer.vocabulary());
  std::unique_ptr<Output> output = openOutput(options, tokenizer.vocabulary());
  uint32_t padding = tokenizer.end().value_or(0);
  std::optional<BalancedOutput> balanced;
  if (options.balance == "attention")
    balanced.emplace(*output, static_cast<uint64_t>(options.sequenceLength), padding);
  uint64_t empty = 0;
  auto place = [&](const Document &document) { return placeOf(options.inputs, document); };
  auto produce = [&](const auto &give) { empty = readDocuments(options.inputs, documentOptions(options), give); };
  auto receive = [&](const Document &document, std::span<const uint32_t> tokens, std::span<const uint8_t> counts) {
    // Some tokenizers append the end token themselves.
    std::optional<uint32_t> end = tokens.empty() || tokens.back() == tokenizer.end() ? std::nullopt : tokenizer.end();
    size_t length = tokens.size() + end.has_value();
    if (options.sequenceLength && length > static_cast<size_t>(options.sequenceLength))
      throw Error(ExitCode::BadInput,
                  fmt::format("{}: this document has {} tokens, more than --sequence-length {}; cut it, "
                              "leave it out, or train on longer sequences",
                              place(document), length, options.sequenceLength));
    if (balanced && length > 0) {
      std::vector<uint32_t> held(tokens.begin(), tokens.end());
      std::vector<uint8_t> marks(counts.begin(), counts.end());
      if (end)
        held.push_back(*end);
      if (end && !marks.empty())
        marks.push_back(marks.back());
      balanced->add(std::move(held), std::move(marks));
      return;
    }
    output->makeRoom(length, padding);
    output->append(tokens, counts);
    if (end)
      output->append(std::span<const uint32_t>(&*end, 1), counts.empty() ? counts : counts.last(1));
    output->endDocument();
  };
  tokenizer.run(produce, receive, place);
  if (balanced)
    balanced->flush();
  return output->publish(empty, padding);
}

} // namespace

Packed pack(const PackOptions &options) {
  if (options.balance != "none" && options.sequenceLength == 0)
    throw Error(ExitCode::Usage,
                fmt::format("--balance {}: needs --sequence-length, whose samples should cost alike", options.balance));
  return options.tokenizer.empty() ? packBytes(options) : packTokens(options);
}

} // namespace dtc
