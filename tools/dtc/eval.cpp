// dtc eval: loss and perplexity of a model over token files. A program is run as it is, on local ranks; a model is
// compiled first, into a folder that is removed once the numbers are known.
#include "runtime/checkpoint/export_model.h"
#include "runtime/data/evaluation_result.h"
#include "runtime/data/token_file.h"
#include "runtime/program/start/command_line.h"
#include "runtime/support/error.h"
#include "runtime/support/log_line.h"
#include "runtime/support/mapped_file.h"
#include "runtime/weights/model_directory.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Compiler.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/TemporaryFolder.h"
#include "tools/dtc/VerbOptions.h"
#include "tools/dtc/Verbs.h"

#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <optional>
namespace fs = std::filesystem;

using namespace dtc;

static constexpr const char *evalFooter =
    "\nTokens are cut into windows of sequence_length; the last may be shorter. Each token but the first is "
    "predicted\nonce, from those before it in its window: a window begins without context, as in training.\n\n"
    "Examples:\n"
    "  $ dtc eval my-model --data book.bin\n"
    "  $ dtc eval dtc-out --data book.bin --by-document      # a run's newest checkpoint\n"
    "  $ dtc eval gpt --weights dtc-out/checkpoints/step-000100 --data book.bin --json\n";

namespace {

struct EvalOptions {
  std::string model, weights, format = "auto";
  std::vector<std::string> data;
  std::map<std::string, std::string> compile; ///< options of 'dtc compile' that were given, with their values
  std::vector<std::string> settings;
  int threads = 0;
  bool byDocument = false, verify = true, json = false;
};

/// As many tokens as the model has positions, but no more than `Most`: a longer window takes much memory. Where the
/// file leaves that number to the family, the compiler uses the family's.
std::optional<int64_t> defaultLength(const std::string &directory) {
  constexpr int64_t Most = 1024;
  nlohmann::json config = ModelConfig::read((fs::path(directory) / "config.json").string()).root;
  for (const char *key : {"max_position_embeddings", "n_positions"})
    if (auto positions = config.find(key); positions != config.end() && positions->is_number_integer())
      return std::min(positions->get<int64_t>(), Most);
  return std::nullopt;
}

/// The program differs from one that trains in nothing that affects the loss. It has one row for each data-parallel
/// rank, so that none computes empty rows, and no moments.
std::vector<std::string> compilerWords(const EvalOptions &options, const std::string &model) {
  std::vector<std::string> words = {"compile", model, "--advice", "none"}; // which is on training
  for (const auto &[option, value] : options.compile)
    words.insert(words.end(), {option, value});
  auto mesh = options.compile.find("--mesh");
  int64_t rows = mesh == options.compile.end() ? 1 : axisSize(mesh->second, "dp"),
          stages = mesh == options.compile.end() ? 1 : axisSize(mesh->second, "pp");
  std::vector<std::string> settings = {fmt::format("global_batch={}", rows * stages),
                                       fmt::format("accumulation={}", stages), "optimizer=sgd", "momentum=0"};
  if (std::optional<int64_t> length = fs::is_directory(model) ? defaultLength(model) : std::nullopt)
    settings.push_back(fmt::format("sequence_length={}", *length));
  settings.insert(settings.end(), options.settings.begin(), options.settings.end());
  for (const std::string &setting : settings)
    words.insert(words.end(), {"--set", setting});
  return words;
}

/// Throws where the program does not hold the model's weights and none are named.
std::string modelOf(const EvalOptions &options) {
  bool isDirectory = fs::is_directory(options.model);
  if (!options.weights.empty())
    return options.model;
  if (!isDirectory || (fs::exists(fs::path(options.model) / "config.json") && !hasWeights(options.model)))
    throw Error(ExitCode::BadInput,
                fmt::format("'{}' has no weights; say which to evaluate: --weights DIRECTORY", options.model));
  return findModel(options.model, options.verify, [](const std::string &text) { tellWarning(text); });
}

/// Returns the exit code of the compiler, which has reported what is wrong.
int compileInto(const std::string &program, const EvalOptions &options) {
  std::vector<std::string> words = compilerWords(options, modelOf(options));
  words.insert(words.end(), {"-o", program});
  return askCompiler(words).exitCode;
}

void requireNoCompileOptions(const EvalOptions &options) {
  std::string given = !options.compile.empty()    ? options.compile.begin()->first
                      : !options.settings.empty() ? "--set " + options.settings.front()
                                                  : "";
  if (!given.empty())
    throw Error(ExitCode::BadInput, fmt::format("'{}' is a program, and {} was fixed when it was compiled; leave the "
                                                "option out, or name the model's directory in its place",
                                                options.model, given));
}

std::vector<std::string> programWords(const std::string &program, const std::string &result, bool isChecked,
                                      const EvalOptions &options) {
  std::vector<std::string> words = {
      program, "--evaluation", result, "--data-format", options.format, "--threads", std::to_string(options.threads)};
  if (!options.weights.empty())
    words.insert(words.end(), {"--weights", options.weights});
  if (!options.verify || isChecked)
    words.emplace_back("--no-verify-checkpoint");
  if (options.byDocument)
    words.emplace_back("--by-document");
  words.emplace_back("--data");
  words.insert(words.end(), options.data.begin(), options.data.end());
  return words;
}

nlohmann::ordered_json answerJson(const EvalOptions &options, const EvaluationResult &result) {
  nlohmann::ordered_json answer = {{"model", options.model}};
  answer.update(dtc::toJson(result.all));
  answer["windows"] = result.windows;
  answer["tokens_per_second"] = result.all.tokens / result.seconds;
  if (options.byDocument)
    answer["documents"] = nlohmann::ordered_json::array();
  for (const LossSum &document : result.documents)
    answer["documents"].push_back(dtc::toJson(document));
  return answer;
}

std::string lossText(const LossSum &sum) {
  if (!sum.mean())
    return fmt::format("tokens {:.0f}  no token counts", sum.tokens);
  return fmt::format("tokens {:.0f}  loss {:.6f}  perplexity {:.4f}", sum.tokens, *sum.mean(), *sum.perplexity());
}

void print(const EvaluationResult &result) {
  for (size_t i = 0; i < result.documents.size(); ++i)
    say("document {}  {}\n", i, lossText(result.documents[i]));
  say("{}  {:.0f} tokens/s\n", lossText(result.all), result.all.tokens / result.seconds);
}

/// Returns the exit code.
int evaluate(const EvalOptions &options) {
  if (!fs::exists(options.model))
    throw Error(ExitCode::BadInput, fmt::format("{}: no such model or program", options.model));
  TemporaryFolder folder("dtc-eval");
  std::string program = options.model, result = folder.at("result");
  bool isModel = fs::is_directory(options.model) || fs::path(options.model).extension() == ".mlir";
  if (!isModel)
    requireNoCompileOptions(options);
  else if (int code = compileInto(program = folder.at("program"), options))
    return code;
  bool isChecked = isModel && options.weights.empty();
  if (int code = runHere(programWords(program, result, isChecked, options)))
    return code;
  EvaluationResult found = EvaluationResult::read(MappedFile(result).text());
  options.json ? printJson(answerJson(options, found)) : print(found);
  return 0;
}

void addCompileOptions(CLI::App &verb, EvalOptions &options) {
  handOn(verb, options.compile,
         {{"--mesh", "For a model: the devices as named axes, as for 'dtc compile'; by default dp=1"},
          {"--strategy", "For a model: how it is laid out on them, as for 'dtc compile'"},
          {"--target", "For a model: the processor, as for 'dtc compile'"}});
  takeRepeated(verb.add_option("--set", options.settings,
                               "For a model: a setting, as in --set compute=bf16; unless it is set, sequence_length is "
                               "the model's number of positions, at most 1024"),
               "KEY=VALUE");
}

} // namespace

void dtc::addEval(CLI::App &app, int &exitCode) {
  auto [verb, options] = addVerb<EvalOptions>(
      app, "eval", "Loss and perplexity of a model over token files, and of each document.", evalFooter);
  verb->add_option("MODEL", options->model,
                   "A directory with config.json and weights, a checkpoint, the folder of a run, or a compiled program")
      ->required();
  verb->add_option("--data", options->data, "Token files, laid end to end (see 'dtc data')")->required();
  verb->add_option("--data-format", options->format, dataFormatHelp)
      ->check(CLI::IsMember(dataFormats()))
      ->capture_default_str();
  verb->add_flag("--by-document", options->byDocument,
                 "Evaluate each document by itself; the files must say where documents begin");
  verb->add_option("--weights", options->weights, "Evaluate the weights in this directory instead of the model's own");
  addCompileOptions(*verb, *options);
  verb->add_option("--threads", options->threads, "Threads per rank; 0: the machine's cores divided by the ranks")
      ->capture_default_str()
      ->check(atLeast(0));
  verb->add_flag("!--no-verify-checkpoint", options->verify,
                 "Take a checkpoint as it is, without checking it against its checksums");
  verb->add_flag("--json", options->json, "Answer for a program");
  verb->callback([options, &exitCode] { exitCode = evaluate(*options); });
}
