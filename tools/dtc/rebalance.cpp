// dtc-compile rebalance: a program's model, cut by what a run of the program measured. dtc balance runs it.
#include "runtime/support/error.h"
#include "tools/dtc/CompileModel.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/StagesText.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/WriteProgram.h"
#include "tools/dtc/report/RunFolder.h"
#include "tools/dtc/report/StageTimes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

using namespace dtc;
using nlohmann::ordered_json;

namespace {

struct RebalanceOptions {
  std::string program, profile, output;
};

/// A cut must be slower than the best by this factor to be replaced: measurements differ by a few percent.
constexpr double tolerated = 1.05;

/// The model must be known, and have run there as this program has it.
void requireSame(const abi::Manifest &program, const RebalanceOptions &options) {
  if (program.has_generation())
    throw Error(ExitCode::BadInput, options.program + ": generates text; balance a program that trains");
  if (program.model_config_json().empty())
    throw Error(
        ExitCode::BadInput,
        fmt::format("{}: was compiled from a model in text, which it does not carry; write: dtc compile FILE.mlir "
                    "OPTIONS --profile {} -o NEW && dtc run NEW --data FILE --resume {}",
                    options.program, options.profile, options.profile));
  RunFolder run = RunFolder::read(options.profile);
  if (run.manifest && (run.manifest->model_config_json() != program.model_config_json() ||
                       meshText(run.manifest->mesh()) != meshText(program.mesh())))
    throw Error(ExitCode::BadInput,
                fmt::format("--run {}: another program ran there, {} for {}; this one is {} for {}. Name the folder of "
                            "a run of this program",
                            options.profile, run.manifest->model_name(), meshText(run.manifest->mesh()),
                            program.model_name(), meshText(program.mesh())));
}

/// The program with other choices, and with all that it carries besides.
void compileAgain(const std::string &choices, abi::Manifest program, const RebalanceOptions &options) {
  program.set_choices(choices);
  CompiledProgram compiled = LoadedModel(program, options.program, "").compile();
  compiled.manifest.set_model_directory(program.model_directory());
  *compiled.manifest.mutable_model_files() = program.model_files();
  writeProgram(compiled, options.output);
}

ordered_json rebalance(const RebalanceOptions &options) {
  requireRuntime();
  abi::Manifest program = readManifest(options.program);
  requireSame(program, options);
  StageProfile profile = readStageProfile(options.profile);
  program.set_choices(choicesWithoutOrder(program, options.program));
  ProfiledStages found = LoadedModel(program, options.program, "").stagesByProfile(profile);
  if (!found.isOfThisCut)
    throw Error(ExitCode::BadInput,
                fmt::format("--run {}: its trace is of a program with another cut than {} has; go on with the run for "
                            "some steps with --trace, or name the program that was traced",
                            options.profile, options.program));
  std::vector<std::string> lines = profiledLines(found);
  bool isBetter = found.cut.even.slowest() > tolerated * found.cut.chosen.slowest();
  if (isBetter)
    compileAgain(printChoices(found.cut.choices, /*isPipeline=*/true), program, options);
  else
    lines.push_back(fmt::format("[{}] is within {:.0f}% of the best cut: nothing is changed",
                                fmt::join(found.cut.even.layers, ", "), 100 * (tolerated - 1)));
  return {{"balanced", isBetter}, {"lines", lines}};
}

} // namespace

void dtc::addRebalance(CLI::App &app) {
  auto [verb, options] =
      addVerb<RebalanceOptions>(app, "rebalance", "A program cut by what a run of it measured; dtc balance asks this.");
  verb->group("");
  verb->add_option("PROGRAM", options->program, "What dtc compile wrote")->required();
  verb->add_option("--profile", options->profile, "The folder of a run of it with --trace")->required();
  verb->add_option("-o,--output", options->output, "The program with another cut")->required();
  verb->callback([options] { printJson(rebalance(*options)); });
}
