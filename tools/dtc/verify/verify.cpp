// dtc verify: the logical program against the command lists of all ranks, for a model with shrunk sizes or for a
// program.
#include "frontends/huggingface/Huggingface.h"
#include "runtime/abi/mesh.h"
#include "runtime/program/start/command_line.h"
#include "runtime/support/error.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/CompileModel.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/VerbOptions.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/forecast/Room.h"
#include "tools/dtc/verify/VerifyCode.h"
#include "tools/dtc/verify/VerifyEffort.h"
#include "tools/dtc/verify/VerifyProgram.h"
#include "tools/verify/Shrunk.h"
#include "tools/verify/Statements.h"
#include "tools/verify/Verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>

using namespace dtc;
using nlohmann::ordered_json;

static constexpr const char *verifyFooter =
    "\nCompares the loss, every gradient, the norms and every updated parameter and moment; names the first "
    "that differs\nand the collective behind it. Exit code 1 when one does.\n\n"
    "Examples:\n"
    "  $ dtc verify examples/gpt-small --mesh dp=2,tp=2\n"
    "  $ dtc verify examples/llama-small --mesh tp=4 --strategy megatron-sp --set accumulation=2\n"
    "  $ dtc verify examples/gpt-small --mesh tp=4 --size vocab=61       # a size of your own\n"
    "  $ dtc verify examples/gpt2 --mesh dp=8 --cluster examples/clusters/h100x8.textproto\n"
    "  $ dtc verify gpt                                                  # a compiled program, as it is\n";

namespace {

struct VerifyOptions {
  CompileRequest request;
  std::string model;              ///< for a compiled program
  std::string cluster;            ///< that it must fit at its full sizes; empty: any
  std::vector<std::string> sizes; ///< "name=size"
  bool fullSize = false, noLimit = false, json = false;
  bool code = true; ///< for a compiled program: whether its kernels are run
};

/// Sizes small enough for an interpreter that the mesh divides as it does the full sizes: the remainder modulo twice
/// the number of ranks stays. So a size that divides evenly still does, one that does not still does not, and an even
/// one stays even. Different dimensions get different sizes where possible, so that mixing them up shows. For layers
/// see ShrunkProgram.
std::map<std::string, int64_t> shrink(const abi::Manifest &manifest) {
  int64_t modulus = 2 * Mesh(manifest.mesh()).ranks();
  std::map<std::string, int64_t> small, full;
  for (const abi::Symbol &symbol : manifest.symbols()) {
    int64_t multiple = symbol.name() == "vocab" ? 3 : symbol.name() == "mlp" ? 2 : 1;
    int64_t size = multiple * modulus + symbol.size() % modulus;
    if (symbol.name() != "layers" && size < symbol.size())
      small[symbol.name()] = size;
    full[symbol.name()] = symbol.size();
  }
  // A sequence has to fit the positions: where remainders prevent that, positions grow by whole multiples.
  auto sizeOf = [&](const char *name) { return small.contains(name) ? small.at(name) : full[name]; };
  while (small.contains("positions") && small.at("positions") < sizeOf("sequence"))
    small["positions"] += modulus;
  return small;
}

CompiledProgram compileLists(const CompileRequest &request) {
  return LoadedModel(request).compile(/*generateCode=*/false);
}

/// As many layers in each stage, whatever strategy and choices say.
void setLayers(CompileRequest &request, const std::vector<int64_t> &ofStages) {
  request.symbols["layers"] = std::accumulate(ofStages.begin(), ofStages.end(), int64_t(0));
  if (ofStages.size() > 1)
    request.stageLayers = ofStages;
}

/// The layers of each stage, where the size "layers" counts them; otherwise none.
std::vector<int64_t> countedLayers(const abi::Manifest &full) {
  std::vector<int64_t> layers;
  int64_t count = 0;
  for (const abi::Stage &stage : full.stages())
    count += layers.emplace_back(stage.layers_size());
  bool isCounted = std::ranges::any_of(
      full.symbols(), [&](const abi::Symbol &symbol) { return symbol.name() == "layers" && symbol.size() == count; });
  return isCounted ? layers : std::vector<int64_t>();
}

/// The program of the request with as few layers as behave like the full model: one of each class, and more where a
/// strategy names single layers or what layers do reaches beyond their neighbours. Nothing where only all layers
/// suffice.
std::optional<CompiledProgram> compileFewLayers(CompileRequest request, const abi::Manifest &full) {
  std::vector<int64_t> all = countedLayers(full), layers = verify::layersToKeep(full);
  if (all.empty())
    return std::nullopt;
  for (int64_t more = 1; layers != all; more *= 2) {
    setLayers(request, layers);
    try {
      CompiledProgram program = compileLists(request);
      if (verify::compareCollectives(program.manifest, full).empty())
        return program;
    } catch (const Error &error) {
      if (error.exitCode() != ExitCode::BadInput) // a strategy names a layer that does not exist
        throw;
    }
    for (size_t stage = 0; stage < all.size(); ++stage)
      layers[stage] = std::min(layers[stage] + more, all[stage]);
  }
  return std::nullopt;
}

void readSizes(const std::vector<std::string> &texts, std::map<std::string, int64_t> &sizes) {
  for (const std::string &text : texts) {
    size_t equals = text.find('=');
    int64_t size = 0;
    bool valid = equals != std::string::npos && parseWhole(text.substr(equals + 1), size) && size > 0;
    if (!valid)
      throw Error(ExitCode::Usage, fmt::format("--size {}: write name=number, as in --size vocab=64", text));
    sizes[text.substr(0, equals)] = size;
  }
}

/// Checks of the shrunk program are valid for the full one only when both move the same values in the same order.
void requireSameCollectives(const abi::Manifest &full, const abi::Manifest &small) {
  if (std::string difference = verify::compareCollectives(small, full); !difference.empty())
    throw Error(ExitCode::Runtime, fmt::format("the shrunk program's collectives are not the full program's: {}; "
                                               "choose other sizes with --size, or --full-size",
                                               difference));
}

/// Compiles the shrunk program with the same choices; with fewer layers the stages get their shares.
void replay(const abi::Manifest &full, CompileRequest &request) {
  request.choicesText = full.choices();
  request.choicesFile = "";
  std::vector<int64_t> layers;
  for (const abi::Stage &stage : full.stages())
    layers.push_back(stage.layers_size());
  if (auto count = request.symbols.find("layers"); count != request.symbols.end() && layers.size() > 1)
    request.stageLayers = shareOutLayers(layers, count->second);
}

verify::VerifyReport run(const CompileRequest &request, const abi::Manifest &manifest) {
  LoadedModel logical(request);
  logical.runPhases(Phase::What);
  verify::Expectation expectation(logical.module(),
                                  verify::timetableOf(manifest.training().accumulation(), verify::hasCopies(manifest)),
                                  verify::vocabularyOf(manifest));
  return verify::verify(expectation, manifest, verify::f64Tolerance, tellProgress());
}

void print(const verify::VerifyReport &report, const abi::Manifest &manifest) {
  say("Sizes      ");
  for (const abi::Symbol &symbol : manifest.symbols())
    say(" {} {}", symbol.name(), symbol.size());
  say("\n");
  double largest = 0;
  std::map<std::string, int64_t> tensors;
  for (const verify::Comparison &comparison : report.comparisons) {
    ++tensors[comparison.list];
    if (comparison.agrees() && comparison.bound > 0)
      largest = std::max(largest, comparison.error / comparison.bound);
  }
  if (!tensors.empty()) {
    say("Compared   ");
    for (const auto &[list, count] : tensors)
      say(" {} {}", list, count);
    say(" tensors; largest error {:.2g} of the bound ({:.0e} relative)\n", largest, verify::f64Tolerance);
  }
  say("{}\n", report.failure.empty() ? "Verified    all agree" : "Differs     " + report.failure);
}

ordered_json toJson(const verify::VerifyReport &report) {
  ordered_json answer = {{"verified", report.failure.empty()}, {"failure", report.failure}};
  answer["comparisons"] = ordered_json::array();
  for (const verify::Comparison &comparison : report.comparisons)
    answer["comparisons"].push_back({{"list", comparison.list},
                                     {"tensor", comparison.tensor},
                                     {"error", comparison.error},
                                     {"bound", comparison.bound}});
  return answer;
}

void show(const VerifyOptions &options, const verify::VerifyReport &report, const abi::Manifest &manifest) {
  options.json ? printJson(toJson(report)) : print(report, manifest);
}

void print(const verify::CodeReport &code) {
  say("Code        {} kernels ran, {} elements compared with their meaning", code.kernels, code.compared);
  if (!code.cut.empty())
    say("; {} of them on the first, middle and last rows or on smaller sizes", code.cut.size());
  if (!code.left.empty())
    say("; not run, as their meaning takes too long to compute: {}", fmt::join(code.left, ", "));
  say("\n");
}

ordered_json toJson(const verify::CodeReport &code) {
  return {{"kernels", code.kernels}, {"compared", code.compared}, {"in_part", code.cut}, {"not_run", code.left}};
}

/// Checked before anything is computed.
void requireRoomOnCluster(const VerifyOptions &options, const abi::Manifest &manifest) {
  if (options.cluster.empty())
    return;
  timing::Layout layout = layoutOn(options.cluster, manifest.mesh());
  requireRoom(manifest, layout, options.request.model);
  if (!options.json)
    for (const Room &room : roomOf(manifest, layout))
      say("Fits        on {}: {}\n", layout.cluster().name(), roomText(room));
}

bool verifyModel(const VerifyOptions &options) {
  CompileRequest request = options.request;
  abi::Manifest full = compileLists(request).manifest;
  requireRoomOnCluster(options, full);
  if (int ranks = Mesh(full.mesh()).ranks(); ranks > verify::mostRanks)
    throw Error(ExitCode::BadInput, fmt::format("{} ranks: verify runs them all in this process, at most {}; give a "
                                                "smaller mesh of the same axes",
                                                ranks, verify::mostRanks));
  bool fixedSizes = !std::filesystem::is_directory(request.model); // a model as text
  if (!options.fullSize && !fixedSizes)
    request.symbols = shrink(full);
  readSizes(options.sizes, request.symbols);
  request.warnings = false; // they were shown for the full one
  replay(full, request);
  std::optional<CompiledProgram> few;
  if (!options.fullSize && !fixedSizes && !request.symbols.contains("layers"))
    few = compileFewLayers(request, full);
  CompiledProgram small = few ? std::move(*few) : compileLists(request);
  requireSameCollectives(full, small.manifest);
  if (few)
    setLayers(request, countedLayers(small.manifest));
  requireEffort(VerifyEffort::of(small.manifest), request.model, "and a smaller mesh of the same axes takes less",
                options.noLimit);
  verify::VerifyReport report = run(request, small.manifest);
  show(options, report, small.manifest);
  return report.failure.empty();
}

/// The program itself states all that decides its layout and training.
void requireNoneOf(const CLI::App &verb, std::initializer_list<const char *> names, const char *why) {
  for (const char *name : names)
    if (verb.count(name) > 0)
      throw Error(ExitCode::Usage, fmt::format("verify: {} {}", name, why));
}

/// Verifies the lists, the kernels, or both.
bool verifyCompiled(const VerifyOptions &options, bool lists) {
  const std::string &path = options.request.model;
  abi::Manifest program = readManifest(path);
  requireRoomOnCluster(options, program);
  verify::VerifyReport report;
  if (lists)
    report = verifyProgram(program, path, options.model, options.noLimit);
  std::optional<verify::CodeReport> code;
  std::string why;
  if (options.code && report.failure.empty())
    code = verifyCode(program, path, why);
  if (code)
    report.failure = code->failure;
  if (options.json) {
    ordered_json answer = toJson(report);
    if (code)
      answer["code"] = toJson(*code);
    printJson(answer);
    return report.failure.empty();
  }
  if (code)
    print(*code);
  else if (!why.empty())
    say("Code        the kernels do not run here: {}\n", why);
  print(report, program);
  return report.failure.empty();
}

bool verifyEither(const VerifyOptions &options, const CLI::App &verb) {
  if (!looksLikeProgram(options.request.model)) {
    requireNoneOf(verb, {"--model"}, "says what a compiled program was made of; a model needs none");
    requireNoneOf(verb, {"--code"}, "is for a compiled program; a model has no code yet");
    return verifyModel(options);
  }
  requireNoneOf(
      verb,
      {"--mesh", "--strategy", "--timetable", "--choices", "--config", "--set", "--size", "--full-size", "--remarks"},
      "is for a model; a compiled program has its own layout, settings and sizes");
  bool codeAlone = verb.count("--code") > 0 && options.code;
  return verifyCompiled(options, !codeAlone);
}

} // namespace

void dtc::addVerify(CLI::App &app, int &exitCode) {
  auto [verb, options] = addVerb<VerifyOptions>(app, "verify", verifySummary, verifyFooter);
  addCompileRequest(*verb, options->request);
  verb->get_option("MODEL")->description("A directory with a config.json (" + huggingface::familyNames() +
                                         "), a .mlir file, or a compiled program");
  verb->add_option("--model", options->model,
                   "For a program: the model it must be of, instead of the config.json in it; one from text needs it");
  takeRepeated(
      verb->add_option("--size", options->sizes, "A size of the model instead of the shrunk one; may be repeated"),
      "NAME=SIZE");
  verb->add_option("--cluster", options->cluster,
                   "A cluster file (docs/clusters.md) on which it must fit at its full sizes: a device for each rank, "
                   "and memory");
  verb->add_flag("--full-size", options->fullSize, "Shrink nothing; models in text and programs are never shrunk");
  verb->add_flag("--no-limit", options->noLimit,
                 "Run also what takes more than ten minutes or 16 GB of memory, which is refused otherwise");
  verb->add_flag("--code,!--no-code", options->code,
                 "For a program: run the kernels' code alone, whatever the program's size; --no-code runs all but it");
  verb->add_flag("--json", options->json, "Answer for a program");
  verb->callback([options, verb, &exitCode] {
    if (!verifyEither(*options, *verb))
      exitCode = static_cast<int>(ExitCode::Runtime);
  });
}
