// dtc sample: how a model continues a prompt.
#include "runtime/abi/mesh.h"
#include "runtime/abi/symbols.h"
#include "runtime/checkpoint/find_checkpoints.h"
#include "runtime/program/start/command_line.h"
#include "runtime/support/error.h"
#include "runtime/support/standard_files.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/OtherVerbs.h"
#include "tools/dtc/Process.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/TemporaryFolder.h"
#include "tools/dtc/VerbOptions.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/text/SampleText.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <unistd.h>

namespace fs = std::filesystem;

using namespace dtc;
using Json = nlohmann::json;

static constexpr const char *sampleFooter =
    "\nA directory is compiled for the prompt first; a program made by 'dtc compile --generate' is run as it\n"
    "is. Each new token is the likeliest, or with --temperature one that is drawn.\n\n"
    "Examples:\n"
    "  $ dtc sample gpt2 --prompt 'The house' --max-tokens 32 --stop .\n"
    "  $ dtc sample gpt2 --prompt-ids 464,3290 --max-tokens 32\n"
    "  $ dtc sample dtc-out --prompt-ids 464,3290               # the newest checkpoint of a run\n"
    "  $ dtc compile gpt2 --generate 256 -o gpt2.sample && dtc sample gpt2.sample --prompt-ids 464,3290\n"
    "  $ dtc sample llama --mesh tp=4 --set compute=bf16 --prompt-ids 1,306 --stop-ids 2\n";

namespace {

struct SampleOptions {
  std::string model, stops, tokenizer, mesh = "dp=1", strategy = "megatron";
  std::vector<std::string> texts, prompts, stopTexts, settings;
  int64_t maxTokens = 64;
  std::optional<double> temperature, topP;
  std::optional<int64_t> topK, seed;
  int threads = 0;
  bool caches = true, json = false;
};

/// "1,2,3", or with spaces.
std::vector<int64_t> parseIds(const std::string &text, const char *option) {
  std::vector<int64_t> ids;
  std::string word;
  for (char c : text + ",") {
    if (c != ',' && c != ' ') {
      word += c;
      continue;
    }
    int64_t id = 0;
    if (!word.empty() && (!parseWhole(word, id) || id < 0))
      throw Error(ExitCode::Usage,
                  fmt::format("{} {}: '{}' is not a token id; write ids as 464,3290", option, shellWord(text), word));
    if (!word.empty())
      ids.push_back(id);
    word.clear();
  }
  if (ids.empty())
    throw Error(ExitCode::Usage, fmt::format("{} {}: there is no token; a model continues at least one, as in "
                                             "464,3290",
                                             option, shellWord(text)));
  return ids;
}

/// Ranks along dp each take some of the rows.
int64_t rowsFor(size_t prompts, const std::string &mesh) {
  int64_t ranks = axisSize(mesh, "dp");
  auto wanted = static_cast<int64_t>(prompts);
  return (wanted + ranks - 1) / ranks * ranks;
}

/// The length of the pieces in which prompts are read: all equal, none longer than usual.
int64_t promptPositions(const std::vector<std::vector<int64_t>> &prompts) {
  constexpr int64_t usual = 128;
  auto longest = static_cast<int64_t>(std::ranges::max(prompts, {}, &std::vector<int64_t>::size).size());
  int64_t pieces = (longest + usual - 1) / usual;
  return (longest + pieces - 1) / pieces;
}

class Sampling {
public:
  explicit Sampling(const SampleOptions &options) : options(options) {
    if (options.texts.empty() && options.prompts.empty())
      throw Error(ExitCode::Usage, "there is no prompt; give --prompt TEXT, or the ids of its tokens by --prompt-ids");
    for (const std::string &prompt : options.prompts)
      prompts.push_back(parseIds(prompt, "--prompt-ids"));
    if (!options.stops.empty())
      stops = parseIds(options.stops, "--stop-ids");
    if (!options.texts.empty())
      readTexts();
  }

  /// Returns the exit code of the first process that fails.
  int run() {
    std::string program = options.model;
    if (fs::is_directory(program)) {
      program = folder.at("program");
      if (int code = compile(program); code != 0)
        return code;
    }
    abi::Manifest manifest = readManifest(program);
    requireGenerates(manifest);
    requireTokens(manifest);
    std::string request = folder.at("request.json");
    std::ofstream(request) << requestText();
    std::vector<std::string> command = {"/proc/self/exe", "run", program, "--sample", request};
    if (options.threads)
      command.insert(command.end(), {"--threads", std::to_string(options.threads)});
    news.resize(prompts.size());
    int code = runProcess(command, [this](const std::string &line) {
      take(line);
      return !isStopped();
    });
    finish();
    return isStopped() ? 0 : code;
  }

private:
  /// A model directory as it is; for a run's folder the newest checkpoint, which is one.
  std::string modelDirectory() const {
    std::error_code unknown;
    return fs::exists(fs::path(options.model) / "config.json", unknown) ? options.model
                                                                        : findCheckpoints(options.model).front();
  }

  /// The model's own tokenizer, unless another is named.
  std::string findTokenizerFile() const {
    if (!options.tokenizer.empty())
      return tokenizerFile(options.tokenizer);
    std::string folder =
        fs::is_directory(options.model) ? modelDirectory() : readManifest(options.model).model_directory();
    if (std::optional<std::string> file = findTokenizer(folder))
      return *file;
    throw Error(ExitCode::BadInput, fmt::format("--prompt: there is no tokenizer in '{}' (tokenizer.json, or "
                                                "tokenizer.model of sentencepiece); name one by --tokenizer PATH, or "
                                                "give ids of tokens by --prompt-ids",
                                                folder));
  }

  void readTexts() {
    text.emplace(findTokenizerFile(), options.stopTexts);
    for (const std::string &prompt : options.texts)
      prompts.push_back(text->addPrompt(prompt));
    if (stops.empty() && text->end())
      stops.push_back(*text->end());
  }

  bool isStopped() const { return text && text->areStopped(); }

  int compile(const std::string &program) const {
    auto longest = static_cast<int64_t>(std::ranges::max(prompts, {}, &std::vector<int64_t>::size).size());
    std::vector<std::string> command = {"/proc/self/exe",
                                        "compile",
                                        modelDirectory(),
                                        "--generate",
                                        std::to_string(longest + options.maxTokens),
                                        "--rows",
                                        std::to_string(rowsFor(prompts.size(), options.mesh)),
                                        "--prompt-positions",
                                        std::to_string(promptPositions(prompts)),
                                        "--mesh",
                                        options.mesh,
                                        "--strategy",
                                        options.strategy,
                                        "-o",
                                        program};
    for (const std::string &setting : options.settings)
      command.insert(command.end(), {"--set", setting});
    if (!options.caches)
      command.emplace_back("--no-cache");
    return runProcess(command,
                      [](const std::string &) { return true; }); // what it prints of the program is not shown
  }

  Json requestText() const {
    Json request = {{"prompts", prompts}, {"max_tokens", options.maxTokens}, {"stop", stops}};
    auto add = [&](const char *key, const auto &value) {
      if (value)
        request[key] = *value;
    };
    add("temperature", options.temperature);
    add("top_k", options.topK);
    add("top_p", options.topP);
    add("seed", options.seed);
    return request;
  }

  void requireGenerates(const abi::Manifest &manifest) const {
    if (manifest.has_generation())
      return;
    throw Error(ExitCode::BadInput,
                fmt::format("{}: this program trains; 'dtc sample' takes a model directory, the folder of a run, or a "
                            "program that generates. Write: dtc compile MODEL --generate 256 -o PROGRAM && dtc sample "
                            "PROGRAM {} {}",
                            options.model, text ? "--prompt" : "--prompt-ids",
                            shellWord((text ? options.texts : options.prompts).front())));
  }

  void requireTokens(const abi::Manifest &manifest) const {
    int64_t vocabulary = abi::sizeOf(manifest, "vocab");
    auto check = [&](const std::vector<int64_t> &ids, const char *option) {
      for (int64_t id : ids)
        if (id >= vocabulary && text)
          throw Error(ExitCode::BadInput,
                      fmt::format("the tokenizer's token {} is not one of the model's: it has {} entries, the model's "
                                  "vocabulary {}; name the model's own by --tokenizer PATH",
                                  id, text->vocabulary(), vocabulary));
        else if (id >= vocabulary)
          throw Error(ExitCode::BadInput,
                      fmt::format("{} {}: {} is not a token of the model; its vocabulary has the ids "
                                  "0 to {}",
                                  option, fmt::join(ids, ","), id, vocabulary - 1));
    };
    for (const std::vector<int64_t> &prompt : prompts) {
      check(prompt, "--prompt-ids");
      auto length = static_cast<int64_t>(prompt.size());
      if (int64_t capacity = manifest.generation().capacity(); options.maxTokens > capacity - length)
        throw Error(ExitCode::BadInput,
                    fmt::format("{}: a prompt of {} tokens and {} new ones (--max-tokens) do not fit the program's {} "
                                "positions; ask for fewer, or compile it with --generate {} or more",
                                options.model, length, options.maxTokens, capacity, length + options.maxTokens));
    }
    check(stops, "--stop-ids");
  }

  /// A line of the program's output.
  void take(const std::string &line) {
    Json said = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!said.is_object())
      return;
    if (!said.contains("token")) {
      last = std::move(said);
      return;
    }
    auto prompt = said.value("row", size_t(0));
    if (text && text->isStopped(prompt)) // the program does not know about stops
      return;
    auto token = said.value("token", int64_t(0));
    std::vector<int64_t> &own = news.at(prompt);
    own.push_back(token);
    std::string piece = text ? text->push(prompt, token) : fmt::format("{}{}", own.size() > 1 ? " " : "", token);
    if (options.json && text)
      said["text"] = piece;
    if (options.json)
      sayJson(said);
    else if (news.size() == 1) // with several prompts, answers would be interleaved; they are printed at the end
      sayText(piece);
    std::fflush(stdout);
  }

  void finish() {
    bool isAlone = news.size() == 1 && !options.json;
    for (size_t prompt = 0; text && prompt < news.size(); ++prompt)
      if (std::string rest = text->finish(prompt); isAlone)
        sayText(rest);
    if (options.json)
      return finishJson();
    if (isAlone && !news.front().empty())
      say("\n");
    for (size_t prompt = 0; !isAlone && prompt < news.size(); ++prompt)
      sayText((text ? text->answer(prompt) : fmt::format("{}", fmt::join(news[prompt], " "))) + "\n");
    std::fflush(stdout);
    if (!last.is_null())
      tellNews(fmt::format("{} new tokens, {:.1f} a second; a prompt of {} tokens in {:.3f} s", countNew(),
                           last.value("tokens_per_second", 0.0), last.value("prompt_tokens", 0),
                           last.value("prompt_seconds", 0.0)));
  }

  void finishJson() {
    if (last.is_null())
      return;
    last["tokens"] = countNew();
    for (size_t prompt = 0; text && prompt < news.size(); ++prompt)
      last["texts"].push_back(text->answer(prompt));
    sayJson(last);
  }

  size_t countNew() const {
    size_t count = 0;
    for (const std::vector<int64_t> &own : news)
      count += own.size();
    return count;
  }

  /// A model may generate control sequences for a terminal: they are escaped there, as JSON escapes all that is not
  /// ASCII.
  static void sayText(const std::string &said) {
    isatty(STDOUT_FILENO) ? tell(stdout, said) : void(std::fputs(said.c_str(), stdout));
  }

  static void sayJson(const Json &said) {
    std::fputs((said.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n").c_str(), stdout);
  }

  const SampleOptions &options;
  std::vector<std::vector<int64_t>> prompts, news; ///< for each prompt, the tokens that follow
  std::vector<int64_t> stops;
  std::optional<SampleText> text; ///< where prompts are given as texts
  Json last;                      ///< what the program prints at its end
  TemporaryFolder folder{"dtc-sample"};
};

/// How the next token is chosen.
void addDrawing(CLI::App &verb, SampleOptions &options) {
  verb.add_option("--temperature", options.temperature,
                  "Divides the logits before a token is drawn; 0, the default: the likeliest follows")
      ->check(CLI::Range(0.0, 1e6));
  verb.add_option("--top-k", options.topK, "Draw from this many of the likeliest tokens; 0: from all")
      ->check(atLeast(0));
  verb.add_option("--top-p", options.topP, "Draw from the likeliest tokens that together have this probability")
      ->check(CLI::Range(0.0, 1.0));
  verb.add_option("--seed", options.seed, "The seed for drawing tokens: the same seed gives the same tokens")
      ->check(atLeast(0));
}

/// What a directory is compiled for.
void addCompiling(CLI::App &verb, SampleOptions &options) {
  verb.add_option("--mesh", options.mesh, "For a directory: the ranks on this host, as for 'dtc compile'")
      ->capture_default_str();
  verb.add_option("--strategy", options.strategy, "For a directory: as for 'dtc compile'")->capture_default_str();
  takeRepeated(verb.add_option("--set", options.settings,
                               "For a directory: a setting, as in --set compute=bf16; may be repeated"),
               "KEY=VALUE");
  verb.add_flag("!--no-cache", options.caches,
                "For a directory: read all again for each new token instead of keeping keys and values; a check");
}

} // namespace

void dtc::addSample(CLI::App &app, int &exitCode) {
  auto [verb, options] =
      addVerb<SampleOptions>(app, "sample", "Generate text: let a model continue a prompt.", sampleFooter);
  verb->add_option("MODEL", options->model,
                   "A model directory, a checkpoint, the folder of a run, or a program that generates")
      ->required();
  auto *text = takeRepeated(verb->add_option("--prompt", options->texts, "A prompt; may be repeated"), "TEXT");
  takeRepeated(verb->add_option("--prompt-ids", options->prompts, "Or the ids of its tokens; may be repeated"),
               "ID,ID,...")
      ->excludes(text);
  verb->add_option("--tokenizer", options->tokenizer,
                   "A tokenizer.json, a .model of sentencepiece, or a folder with one; by default the model's own")
      ->needs(text);
  takeRepeated(verb->add_option("--stop", options->stopTexts, "The answer ends before this text; may be repeated"),
               "TEXT")
      ->needs(text);
  verb->add_option("--max-tokens", options->maxTokens, "The most new tokens")->capture_default_str()->check(atLeast(1));
  verb->add_option("--stop-ids", options->stops,
                   "Tokens after which generation stops; with --prompt, by default the tokenizer's end of text")
      ->type_name("ID,ID,...");
  addDrawing(*verb, *options);
  addCompiling(*verb, *options);
  verb->add_option("--threads", options->threads, "Threads per rank; 0: the machine's cores divided by the ranks")
      ->capture_default_str()
      ->check(atLeast(0));
  verb->add_flag("--json", options->json, "A line of JSON for each token, and one at the end");
  verb->callback([options, &exitCode] { exitCode = Sampling(*options).run(); });
}
