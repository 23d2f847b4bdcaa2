// dtc data: token files.
#include "runtime/abi/write_error.h"
#include "runtime/data/text.h"
#include "runtime/data/token_writer.h"
#include "runtime/program/command_line.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/Verbs.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <optional>

using namespace dtc;

namespace {

constexpr int64_t byteVocabulary = 256;

struct DataOptions {
  std::vector<std::string> texts;
  std::string file;
  std::string format = "auto";
  int64_t vocabulary = byteVocabulary;
  bool json = false;
};

TokenFile openTokens(const DataOptions &options) { return TokenFile(options.file, parseTokenFormat(options.format)); }

/// As --data-format takes it.
std::string nameOfOption(TokenFile::Format format) {
  return std::ranges::find(tokenFormats(), format, &std::pair<const std::string, TokenFile::Format>::second)->first;
}

void showJson(const DataOptions &options, const TokenFile &file, const TokenStatistics &statistics) {
  using json = nlohmann::ordered_json;
  auto number = [](const auto &value) { return value ? json(*value) : json(); };
  bool documents = file.documents();
  json answer = {{"file", options.file},
                 {"format", nameOfOption(file.format())},
                 {"bits", file.tokenBits()},
                 {"tokens", statistics.tokens},
                 {"counted_tokens", statistics.counted},
                 {"documents", documents ? json(statistics.documents) : json()},
                 {"longest_document", documents ? json(statistics.longestDocument) : json()},
                 {"distinct_tokens", number(statistics.distinct)},
                 {"largest_token", statistics.largest},
                 {"unigram_entropy_nats", number(statistics.unigramEntropy)},
                 {"bigram_entropy_nats", number(statistics.bigramEntropy)}};
  printJson(answer);
}

void show(const DataOptions &options, const TokenFile &file) {
  TokenStatistics statistics = tokenStatistics(file);
  if (options.json) {
    showJson(options, file, statistics);
    return;
  }
  say("{}: {} tokens of {} bits in {}'s format\n", options.file, statistics.tokens, file.tokenBits(),
      nameOf(file.format()));
  if (file.documents())
    say("  {} documents, the longest has {} tokens\n", statistics.documents, statistics.longestDocument);
  if (file.hasMask())
    say("  {} of them count as targets, as the loss mask beside the file says\n", statistics.counted);
  std::string tooMany = fmt::format("more than {}", TokenStatistics::MostCounted);
  say("  {} different tokens, the largest is {}\n",
      statistics.distinct ? fmt::format("{}", *statistics.distinct) : tooMany, statistics.largest);
  if (statistics.unigramEntropy)
    say("  unigram entropy {:.4f} nats a token: the loss of knowing how often each token occurs\n",
        *statistics.unigramEntropy);
  if (statistics.bigramEntropy)
    say("  bigram entropy {:.4f} nats a token: the loss of knowing also the token before\n", *statistics.bigramEntropy);
  else
    say("  {} different pairs of tokens: their entropy is not computed\n", tooMany);
}

void pack(const DataOptions &options) {
  std::optional<TokenFileWriter> writer; // tries the file before the first text is read
  asOption("-o " + options.file, [&] {
    requireNoInput(options.file, options.texts);
    writer.emplace(options.file);
  });
  for (const std::string &text : options.texts)
    readText(text, [&](std::string_view block) { writer->append(byteTokens(block)); });
  writer->publish();
  show(options, openTokens(options));
}

void check(const DataOptions &options) {
  TokenFile file = openTokens(options);
  file.checkVocabulary(options.vocabulary);
  show(options, file);
}

} // namespace

void dtc::addData(CLI::App &app) {
  auto options = std::make_shared<DataOptions>();
  CLI::App *data = app.add_subcommand("data", "Make, show and check token files.");
  data->footer(
      "\n  dtc data pack book.txt notes.txt.gz -o corpus.bin   one token a byte\n"
      "  dtc data show corpus.bin --json\n"
      "  dtc data check corpus.bin --vocabulary 50257\n\n"
      "Token files have llm.c's header and tokens of 16 or 32 bits, or Megatron's index beside them (NAME.idx for\n"
      "NAME.bin); 16-bit tokens without either, as nanoGPT writes them, need --data-format nanogpt. FILE.mask beside "
      "FILE is its loss mask: one byte a token, 1\n"
      "where it counts as a target and 0 where it does not.\n");
  data->require_subcommand(1);

  CLI::App *packVerb = data->add_subcommand("pack", "Write texts (also gzip and dictd's .dz) as a file of byte tokens");
  packVerb->add_option("TEXT", options->texts, "Text files, laid end to end")->required();
  packVerb->add_option("-o,--output", options->file, "The token file to write")->required();
  packVerb->callback([options] { pack(*options); });

  CLI::App *showVerb = data->add_subcommand("show", "Show a token file's size, vocabulary and entropies");
  CLI::App *checkVerb = data->add_subcommand("check", "The same, after checking every token against a vocabulary");
  for (CLI::App *verb : {showVerb, checkVerb}) {
    verb->add_option("FILE", options->file, "A token file")->required();
    verb->add_option("--data-format", options->format, dataFormatHelp)
        ->check(CLI::IsMember(dataFormats()))
        ->capture_default_str();
  }
  checkVerb->add_option("--vocabulary", options->vocabulary, "Tokens must be below this")
      ->check(atLeast(1))
      ->capture_default_str();
  for (CLI::App *verb : {packVerb, showVerb, checkVerb})
    verb->add_flag("--json", options->json, "Answer for a program");
  showVerb->callback([options] { show(*options, openTokens(*options)); });
  checkVerb->callback([options] { check(*options); });
}
