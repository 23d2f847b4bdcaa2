// dtc data: token files.
#include "runtime/data/text.h"
#include "runtime/data/token_file.h"
#include "runtime/program/start/command_line.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/text/Pack.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

using namespace dtc;

static constexpr const char *dataFooter =
    "\nToken files have llm.c's header and tokens of 16 or 32 bits, or Megatron's index beside them (NAME.idx for\n"
    "NAME.bin); 16-bit tokens without either, as nanoGPT writes them, need --data-format nanogpt. FILE.mask\n"
    "beside FILE is its loss mask: one byte a token, 1 where it counts as a target and 0 where it does not.\n\n"
    "Examples:\n"
    "  $ dtc data pack book.txt notes.txt.gz -o corpus.bin   # one token a byte\n"
    "  $ dtc data pack --tokenizer gpt2 web.jsonl.gz -o web.bin\n"
    "  $ dtc data pack --tokenizer llama --chat answers.jsonl --sequence-length 2048 -o answers.bin\n"
    "  $ dtc data show corpus.bin --json\n"
    "  $ dtc data check corpus.bin --vocabulary 50257\n";

namespace {

constexpr int64_t byteVocabulary = 256;

struct DataOptions {
  PackOptions packing;
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

void showPackedJson(const PackOptions &options, const Packed &packed) {
  printJson({{"file", options.output},
             {"format", options.format},
             {"bits", packed.bits},
             {"tokens", packed.tokens},
             {"counted_tokens", packed.counted},
             {"documents", packed.documents},
             {"longest_document", packed.longest},
             {"empty_documents", packed.empty},
             {"tokenizer_vocabulary", packed.vocabulary}});
}

void showPacked(const PackOptions &options, const Packed &packed) {
  say("{}: {} tokens of {} bits in {}'s format\n", options.output, packed.tokens, packed.bits, nameOf(packed.format));
  say("  {} documents, the longest has {} tokens\n", packed.documents, packed.longest);
  if (packed.masked)
    say("  {} of the tokens count as targets, by the loss mask '{}.mask'\n", packed.counted, options.output);
  if (packed.empty)
    say("  {} empty documents are left out\n", packed.empty);
  say("  the tokenizer's vocabulary has {} entries; the model's must have as many\n", packed.vocabulary);
}

void packAndShow(const DataOptions &options) {
  Packed packed = pack(options.packing);
  if (options.packing.tokenizer.empty()) {
    DataOptions made = options;
    made.file = options.packing.output;
    if (packed.format == TokenFile::Format::NanoGpt)
      made.format = options.packing.format;
    show(made, openTokens(made));
  } else {
    options.json ? showPackedJson(options.packing, packed) : showPacked(options.packing, packed);
  }
}

void check(const DataOptions &options) {
  TokenFile file = openTokens(options);
  file.checkVocabulary(options.vocabulary);
  show(options, file);
}

} // namespace

static CLI::App *addPack(CLI::App &data, PackOptions &options) {
  CLI::App *verb = data.add_subcommand("pack", "Write texts (also gzip and dictd's .dz) as a token file");
  verb->add_option("TEXT", options.inputs,
                   "Texts, one document each; of files named .jsonl each line is one. They are laid end to end")
      ->required();
  verb->add_option("-o,--output", options.output, "The token file to write")->required();
  verb->add_option(
      "--tokenizer", options.tokenizer,
      "A tokenizer.json, a .model of sentencepiece, or a folder with one; without it each byte is a token");
  verb->add_flag(
      "--chat", options.chat,
      "Lines of JSON are conversations; the tokenizer's chat template makes texts of them, and answers count");
  verb->add_option(
      "--field", options.field,
      "The field of each line of JSON that has the text or the conversation (by default text or messages); "
      "all files have such lines then");
  verb->add_option("--documents", options.documents,
                   "Whether a text is one document, or several with blank lines between")
      ->check(CLI::IsMember({"file", "blank-line"}))
      ->capture_default_str();
  verb->add_option("--end-of-document", options.end,
                   "The token after each document: auto for the tokenizer's own, none, or a token's text")
      ->capture_default_str();
  verb->add_option("--sequence-length", options.sequenceLength,
                   "Pad so that no document crosses the samples of a model with this sequence_length")
      ->check(atLeast(1));
  verb->add_option("--balance", options.balance,
                   "attention: order documents so that samples cost about the same attention, for models with "
                   "separate_documents; with --sequence-length")
      ->check(CLI::IsMember({"none", "attention"}))
      ->capture_default_str();
  std::vector<std::string> formats;
  for (const auto &[name, format] : tokenFormats())
    formats.push_back(name);
  verb->add_option("--format", options.format,
                   "megatron: NAME.idx beside NAME.bin says where documents begin; nanogpt: no header")
      ->check(CLI::IsMember(formats))
      ->capture_default_str();
  verb->add_option("--vocabulary", options.vocabulary, "Refuse a tokenizer with more entries than the model")
      ->check(atLeast(1));
  return verb;
}

void dtc::addData(CLI::App &app) {
  auto [data, options] = addVerb<DataOptions>(app, "data", "Make, show and check token files.", dataFooter);
  data->require_subcommand(1);

  CLI::App *packVerb = addPack(*data, options->packing);
  packVerb->callback([options] { packAndShow(*options); });

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
