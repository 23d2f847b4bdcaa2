// dtc data: token files.
#include "runtime/data/text.h"
#include "runtime/data/token_file.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/Verbs.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>

using namespace dtc;

namespace {

constexpr int64_t byteVocabulary = 256;

struct DataOptions {
  std::vector<std::string> texts;
  std::string file;
  int64_t vocabulary = byteVocabulary;
  bool json = false;
};

void show(const DataOptions &options) {
  TokenFile file(options.file);
  TokenStatistics statistics = tokenStatistics(file.tokens());
  const char *format = file.format() == TokenFile::Format::LlmC ? "llm.c" : "nanoGPT";
  if (options.json) {
    nlohmann::ordered_json answer = {{"file", options.file},
                                     {"format", format},
                                     {"tokens", statistics.tokens},
                                     {"distinct_tokens", statistics.distinct},
                                     {"largest_token", statistics.largest},
                                     {"unigram_entropy_nats", statistics.unigramEntropy},
                                     {"bigram_entropy_nats", statistics.bigramEntropy}};
    printJson(answer);
    return;
  }
  fmt::print("{}: {} tokens in {}'s format\n", options.file, statistics.tokens, format);
  fmt::print("  {} different tokens, the largest is {}\n", statistics.distinct, statistics.largest);
  fmt::print("  unigram entropy {:.4f} nats a token: the loss of knowing how often each token occurs\n",
             statistics.unigramEntropy);
  fmt::print("  bigram entropy {:.4f} nats a token: the loss of knowing also the token before\n",
             statistics.bigramEntropy);
}

void pack(const DataOptions &options) {
  std::vector<uint16_t> tokens;
  for (const std::string &text : options.texts) {
    std::vector<uint16_t> more = byteTokens(readText(text));
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  writeTokenFile(options.file, tokens);
  show(options);
}

void check(const DataOptions &options) {
  TokenFile(options.file).checkVocabulary(options.vocabulary);
  show(options);
}

} // namespace

void dtc::addData(CLI::App &app) {
  auto options = std::make_shared<DataOptions>();
  CLI::App *data = app.add_subcommand("data", "Make, show and check token files.");
  data->footer("\n  dtc data pack book.txt notes.txt.gz -o corpus.bin   one token a byte\n"
               "  dtc data show corpus.bin --json\n"
               "  dtc data check corpus.bin --vocabulary 50257\n\n"
               "Token files hold 16-bit tokens, with llm.c's header or, as nanoGPT writes them, without one.\n");
  data->require_subcommand(1);

  CLI::App *packVerb = data->add_subcommand("pack", "Write texts (also gzip and dictd's .dz) as a file of byte tokens");
  packVerb->add_option("TEXT", options->texts, "Text files, laid end to end")->required();
  packVerb->add_option("-o,--output", options->file, "The token file to write")->required();
  packVerb->callback([options] { pack(*options); });

  CLI::App *showVerb = data->add_subcommand("show", "Show a token file's size, vocabulary and entropies");
  CLI::App *checkVerb = data->add_subcommand("check", "The same, after checking every token against a vocabulary");
  for (CLI::App *verb : {showVerb, checkVerb})
    verb->add_option("FILE", options->file, "A token file")->required();
  checkVerb->add_option("--vocabulary", options->vocabulary, "Tokens must be below this")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  for (CLI::App *verb : {packVerb, showVerb, checkVerb})
    verb->add_flag("--json", options->json, "Answer for a program");
  showVerb->callback([options] { show(*options); });
  checkVerb->callback([options] { check(*options); });
}
