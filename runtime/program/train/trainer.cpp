#include "runtime/program/train/trainer.h"

#include "runtime/abi/symbols.h"
#include "runtime/checkpoint/integrity.h"
#include "runtime/comm/run_together.h"
#include "runtime/config/training_config.h"
#include "runtime/program/data_fingerprint.h"
#include "runtime/program/rank_consistency.h"
#include "runtime/program/run_description.h"
#include "runtime/program/run_files.h"
#include "runtime/program/train/replica_comparison.h"
#include "runtime/program/train/resume.h"
#include "runtime/program/train/step_trace.h"
#include "runtime/support/error.h"
#include "runtime/support/output_file.h"
#include "runtime/support/write_error.h"
#include "runtime/weights/model_directory.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

namespace fs = std::filesystem;

namespace dtc {

Trainer::Trainer(Executor &executor, abi::Training training, ProgramOptions options, std::string program, int threads)
    : executor(executor), training(std::move(training)), options(std::move(options)), threads(threads),
      report(executor, this->training, this->options),
      state(executor.manifest(), executor.rank(), executor.device(), executor.memory()),
      replicas(state, executor.communicator()) {
  done.program = std::move(program);
  goOnWhereStartedAgain(this->options, executor.communicator());
  requireSameStart();
  openOutputs();
  requireSharedFolder();
  openData();
  loadState();
  requireTraceSteps();
  drawSamples();
  if (!this->options.evalOnly)
    checkpoints.emplace(CheckpointPolicy::Context{state, executor.communicator(), this->training, replicas, report},
                        inFolder(RunFiles::Checkpoints), lastCheckpoint);
  runTogether(executor.communicator(), [&] {
    if (isFirst())
      announce();
  });
}

//===----------------------------------------------------------------------===//
// Before the first step
//===----------------------------------------------------------------------===//

/// Requires that all ranks were started the same way: otherwise one would wait where another does not.
void Trainer::requireSameStart() const {
  std::map<std::string, std::string> values = settingsOf(training);
  auto say = [](bool given) { return given ? "given" : "not given"; };
  values["the program"] = done.program;
  values["--data-format"] = options.dataFormat;
  std::vector<double> weights;
  for (const SourceFiles &source : options.data)
    weights.push_back(source.weight);
  values["the weights of --data"] = fmt::format("{}", fmt::join(weights, ", "));
  values["--eval-only"] = say(options.evalOnly);
  values["--resume"] = say(!options.resume.empty());
  values["--resume-anyway"] = say(options.resumeAnyway);
  values["--validation-data"] = say(!options.validationData.empty());
  values["--no-verify-checkpoint"] = say(!options.verifyCheckpoint);
  values["--weights"] = say(!options.weights.empty());
  values["--replay-check"] = fmt::format("{}", options.replayCheck);
  values["--trace"] = options.traceFirst ? fmt::format("{}-{}", options.traceFirst, options.traceLast) : "not given";
  requireSameConfiguration(executor.communicator(), values);
}

/// Checks all outputs before reading anything, so that missing permissions are reported now and not after the last
/// step. Existing files are unchanged until the run begins.
void Trainer::openOutputs() {
  runTogether(executor.communicator(), [&] {
    if (!isFirst())
      return;
    asOption("--out " + options.out, [&] {
      directory.emplace(options.out);
      report.openMetrics();
      if (options.evalOnly)
        return;
      tryCheckpoints(inFolder(RunFiles::Checkpoints));
      requireWritable(inFolder(RunFiles::Settings));
      requireWritable(inFolder(RunFiles::Manifest));
      if (options.traceFirst)
        requireWritable(inFolder(RunFiles::Trace));
    });
    if (!options.lossFile.empty() && !options.evalOnly)
      asOption("--log-losses " + options.lossFile, [&] {
        requireNoInput(options.lossFile, filesOf(options.data));
        requireNoInput(options.lossFile, options.validationData);
        report.openLosses();
      });
  });
}

/// All ranks write checkpoints into one folder: what rank 0 has left in it, the others must see.
void Trainer::requireSharedFolder() {
  if (options.evalOnly)
    return;
  Communicator &communicator = executor.communicator();
  auto look = [&] { return static_cast<int64_t>(OutputDirectory::identityOf(options.out)); };
  int64_t expected = communicator.exchange(look()).front(), found = look();
  // A file system between hosts may take a moment to show what another host has made.
  for (int attempt = 0; found != expected && attempt < 30; ++attempt, found = look())
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::vector<int64_t> same = communicator.exchange(found == expected);
  auto other = std::ranges::find(same, 0);
  if (other == same.end())
    return;
  throw Error(ExitCode::BadInput,
              !isFirst()
                  ? ""
                  : fmt::format("--out {}: it is not the same folder on rank {}'s host as on rank 0's; all ranks "
                                "write checkpoints there: give one that all hosts share",
                                options.out, other - same.begin()));
}

/// A trace that would never be written is a mistake too.
void Trainer::requireTraceSteps() const {
  bool willBe = options.traceFirst > done.step && options.traceFirst <= training.steps();
  if (!options.traceFirst || options.evalOnly || willBe)
    return;
  throw Error(ExitCode::BadInput, !isFirst() ? ""
                                             : fmt::format("--trace {}: this run goes from step {} to {}; name steps "
                                                           "in it",
                                                           options.traceFirst, done.step + 1, training.steps()));
}

void Trainer::loadState() {
  done.seed = training.seed();
  done.sequenceLength = training.sequence_length();
  done.data = fingerprintOf(sources);
  requireSameData(executor.communicator(), "--data", done.data);
  requireSameData(executor.communicator(), "--validation-data", fingerprintOf(validationData));
  done.settings = settingsOf(training);
  if (!options.resume.empty())
    return resumeState();
  runTogether(executor.communicator(), [&] {
    // Of a job that was started again, what lies there is its own, without a checkpoint yet.
    if (isFirst() && !options.evalOnly && !options.startedAgain)
      directory->requireFor("", false);
  });
  loadWeights();
}

void Trainer::resumeState() {
  Communicator &communicator = executor.communicator();
  bool passedOver = false;
  std::string path = chooseCheckpoint(communicator, options.resume, options.verifyCheckpoint,
                                      [&](const std::string &message) { // on the rank that found the damage
                                        passedOver = true;
                                        report.warn(message);
                                      });
  std::vector<int64_t> warned = communicator.exchange(passedOver);
  passedOver = std::ranges::count(warned, 1) != 0;
  runTogether(communicator, [&] { requireSameModel(ProgramConfig::of(executor.manifest()), path); });
  TrainerState was = loadCheckpoint(state, communicator, path, options.verifyCheckpoint);
  // The same run goes on: its seed decides, unless the user names another, which is then a difference.
  if (!assignsSetting(options.settings, "seed"))
    training.set_seed(was.seed);
  done.seed = training.seed();
  done.settings = settingsOf(training);
  runTogether(communicator, [&] {
    if (!isFirst())
      return;
    if (!options.evalOnly)
      directory->requireFor(path, passedOver);
    TrainerState is = done;
    if (was.formatVersion < TrainerState::FormatVersion)
      is.data = fingerprintOf(sources, /*whole=*/true);
    changes = compareRuns(was, is, options.resumeAnyway);
  });
  done.step = lastCheckpoint = was.step;
  done.samples = was.samples;
  done.lossScale = was.lossScale;
  origin = fmt::format("checkpoint {}", path);
}

void Trainer::loadWeights() {
  std::string source = options.weights.empty() ? executor.manifest().model_directory() : options.weights;
  origin = source.empty() ? fmt::format("seeded initialisation (seed {}); no weights are read", training.seed())
                          : fmt::format("weights of {}", source);
  if (!source.empty())
    return dtc::loadWeights(state, executor.communicator(), source, options.verifyCheckpoint);
  runTogether(executor.communicator(), [&] { state.initialize(training.seed(), threads); });
}

void Trainer::openData() {
  runTogether(executor.communicator(), [&] {
    std::optional<TokenFile::Format> format = parseTokenFormat(options.dataFormat);
    sources = openSources(options.data, format);
    validationData = TokenData(options.validationData, format);
  });
}

void Trainer::drawSamples() {
  runTogether(executor.communicator(), [&] {
    SamplerOptions parts{training.sequence_length(), abi::sizeOf(executor.manifest(), "vocab"),
                         training.validation_fraction(), training.seed(), training.separate_documents()};
    sampler.emplace(sources, parts, options.validationData.empty() ? nullptr : &validationData);
    if (options.evalOnly && sampler->validationSamples() == 0)
      throw Error(ExitCode::Usage, "--eval-only: the program holds nothing out (its validation_fraction is 0); give "
                                   "--validation-data");
  });
}

/// From here on the run is real: it takes over the outputs, and describes itself to the user.
void Trainer::announce() {
  if (!options.evalOnly)
    describeRun(options.out, executor.manifest(), training);
  report.begin(done, threads);
  int ranks = executor.communicator().size();
  report.note(fmt::format("{} on {} ({} rank{}, {} thread{} each); {} training and {} held-out samples of {} tokens{}",
                          executor.manifest().model_name(), describeMesh(executor.manifest().mesh()), ranks,
                          ranks == 1 ? "" : "s", threads, threads == 1 ? "" : "s", sampler->trainingSamples(),
                          sampler->validationSamples(), training.sequence_length(),
                          done.step ? fmt::format("; going on after step {}", done.step) : ""));
  report.note("start: " + origin + (changes.empty() ? "" : fmt::format("; since then {}", fmt::join(changes, "; "))));
  announceData();
  if (!options.evalOnly && !replicas.describe().empty())
    report.note(replicas.describe());
  report.noteDevice();
}

void Trainer::announceData() {
  for (size_t i = 0; sources.size() > 1 && i < sources.size(); ++i) {
    auto used = static_cast<double>(sampler->trainingSamplesOf(i));
    report.note(fmt::format("{}: weight {}, {} of an epoch's samples; they go {:.2f} times through its {}",
                            sources[i].data.describe(), sources[i].weight, sampler->trainingSamplesOf(i),
                            used / static_cast<double>(sampler->windowsOf(i)), sampler->windowsOf(i)));
  }
  std::vector<const TokenData *> all;
  for (const Source &source : sources)
    all.push_back(&source.data);
  all.push_back(&validationData);
  for (const TokenData *tokens : all)
    if (tokens->hasMask())
      report.note(fmt::format("{}: {} of {} tokens count as targets, by the loss masks beside", tokens->describe(),
                              tokens->counted(), tokens->size()));
}

//===----------------------------------------------------------------------===//
// The run
//===----------------------------------------------------------------------===//

int Trainer::run() {
  TrainingLoop loop(executor, *sampler, training, done);
  StepRunner &steps = loop.steps();
  HeldOutEvaluation evaluation({steps, executor.communicator(), *sampler, training, state, report});
  int code = 0;
  steps.refresh(); // whatever the weights are: made, read or resumed from
  if (options.evalOnly)
    evaluation.evaluate(done.step);
  else
    code = train(loop, evaluation);
  report.close(code);
  return code;
}

/// The order of observers is that of their effects: copies of the state are compared before it is evaluated, it is
/// evaluated before it is saved, and the trace is written before the run says where its metrics are.
int Trainer::train(TrainingLoop &loop, HeldOutEvaluation &evaluation) {
  if (options.replayCheck)
    report.note(loop.steps().checkByReplay(options.replayCheck));
  std::error_code unknown; // for what is to be told of this run from now on
  executor.communicator().whereabouts().noteFolder(fs::absolute(options.out, unknown).string());
  ReplicaComparison comparison(replicas, report, loop.steps().stepsAhead() > 0);
  StepTrace trace(executor, report, options.traceFirst, options.traceLast, inFolder(RunFiles::Trace));
  loop.add(comparison);
  loop.add(trace);
  loop.add(evaluation);
  loop.add(*checkpoints);
  loop.add(report);
  return loop.run();
}

} // namespace dtc
