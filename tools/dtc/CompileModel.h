// From the command line's arguments to a compiled program: what the verbs that compile share.
#pragma once

#include "frontends/Frontend.h"
#include "passes/pipelines/search/BalanceStages.h"
#include "passes/pipelines/search/ChooseRecompute.h"
#include "passes/pipelines/search/ChooseTimetable.h"

#include "mlir/IR/Diagnostics.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

/// What a user asks of a compilation.
struct CompileRequest {
  std::string model;
  std::string mesh = "dp=1";
  std::string strategy = "megatron"; ///< which is ddp where the mesh has no axis tp
  std::string timetable = "1f1b";    ///< of a pipeline; "auto": the fastest on the layout
  bool overlapSteps = false;         ///< of a pipeline: see docs/pipelines.md
  std::string configFile;
  std::vector<std::string> assignments;
  std::string target = "cpu:native";
  uint64_t memoryLimit = 0; ///< bytes; 0: none
  uint64_t scheduleEffort = usualEffort;
  bool remarks = false, warnings = true;  ///< whether the compiler's are shown
  bool advises = false;                   ///< whether the verb gives advice, which has the figures of a bubble
  std::map<std::string, int64_t> symbols; ///< replaced sizes of the model; see ModelOptions
  std::string strategyText;               ///< text of the strategy's file, where it has been read already
  std::string entry;                      ///< one more entry after the strategy's; see dt-annotate
  std::string choicesFile;                ///< none: the passes choose
  std::string choicesText;                ///< its text, where it has been read already
  const timing::Layout *layout = nullptr; ///< where the ranks will be placed, where a cluster was named
  std::vector<int64_t> stageLayers;       ///< layers of each, overriding choices and strategy
  const StageProfile *profile = nullptr;  ///< of a run, by which a pipeline is cut, whatever they say

  // For a program that generates text and does not train; see abi::Generation.
  int64_t generate = 0;        ///< positions of a row; 0: a program that trains
  int64_t rows = 1;            ///< in parallel
  int64_t promptPositions = 0; ///< positions read at a time; 0: a usual number
  bool caches = true;          ///< of keys and values
};

/// Adds MODEL and the options that all compilations have.
void addCompileRequest(CLI::App &verb, CompileRequest &request);

/// What a frontend is asked for, and what the phases are asked for, with these settings.
ModelOptions modelOptions(const CompileRequest &request, const abi::Training &training);
void setCompileOptions(CompileOptions &options, const CompileRequest &request, const abi::Training &training);

/// The choices that a program was compiled with, as text, without its order and buckets: with other annotations or
/// another cut, commands may differ from those that these name.
std::string choicesWithoutOrder(const abi::Manifest &program, const std::string &path);

/// A model in its first form, ready for the phases. Every failure is an Error that carries the compiler's diagnostics.
class LoadedModel {
public:
  explicit LoadedModel(const CompileRequest &request);
  /// The model of a compiled program, with its settings, mesh, strategy and target: the model that the program carries,
  /// or `model` unless this path is empty. `path` names the program in messages, `entry` follows the strategy's own
  /// entries.
  LoadedModel(const abi::Manifest &program, const std::string &path, const std::string &model,
              const std::string &entry = "");

  /// The phases up to and including `last`, on the module in place.
  void runPhases(Phase last);

  /// Runs all phases; the manifest is complete. `generateCode` as in Compile.h.
  CompiledProgram compile(bool generateCode = true);

  /// Other orders of the step, with the step time of each: first the one that compile() would take without a search,
  /// then those that a search tries, and, if these are fewer than `enough`, the best one with other buckets.
  std::vector<RankedPlan> rankOrders(const timing::Layout &layout, uint64_t effort, size_t enough);

  /// The cut of a pipeline by what a run measured. Memory is not limited.
  ProfiledStages stagesByProfile(const StageProfile &profile);

  /// What compile() would choose, in the form that --choices reads, with the names of commands for an order in its
  /// comments.
  std::string describeChoices();

  /// What was chosen to be recomputed, where the settings left it open, once that is done.
  const std::optional<ChosenRecompute> &chosenRecompute() const { return chosen; }
  /// Where the pipeline was cut by costs, once that is done.
  const std::optional<BalancedStages> &balancedStages() const { return balanced; }
  /// Where it was cut by a profile, once that is done.
  const std::optional<ProfiledStages> &profiledStages() const { return profiled; }
  /// The timetable, where it was searched for, once that is done.
  const std::optional<ChosenTimetable> &chosenTimetable() const { return timetable; }

  mlir::ModuleOp module() const { return *model.module; }
  const abi::Training &settings() const { return training; }

private:
  void choose(CompileOptions &options);
  void searchTimetable(CompileOptions &options);
  void chooseStages(CompileOptions &options);
  ProfiledStages chooseByProfile(const CompileOptions &options, const StageProfile &profile);
  void chooseRecomputed(CompileOptions &options);

  /// Collects the compiler's diagnostics while a step runs.
  class Diagnostics;

  CompileRequest request;
  abi::Training training;
  mlir::MLIRContext context;
  Model model;
  std::optional<ChosenRecompute> chosen;
  std::optional<BalancedStages> balanced;
  std::optional<ProfiledStages> profiled;
  std::optional<ChosenTimetable> timetable;
  mlir::OwningOpRef<mlir::ModuleOp> compiled; ///< kept, as the model is: see compileToProgram
};

} // namespace dtc
