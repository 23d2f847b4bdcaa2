#include "runtime/program/train/trainer.h"

#include "runtime/abi/roles.h"
#include "runtime/abi/symbols.h"
#include "runtime/checkpoint/integrity.h"
#include "runtime/checkpoint/model_directory.h"
#include "runtime/comm/run_together.h"
#include "runtime/config/training_config.h"
#include "runtime/observe/peak_flops.h"
#include "runtime/program/data_fingerprint.h"
#include "runtime/program/rank_consistency.h"
#include "runtime/program/run_description.h"
#include "runtime/program/run_files.h"
#include "runtime/program/start/interrupt.h"
#include "runtime/program/train/resume.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/log_line.h"
#include "runtime/support/now.h"
#include "runtime/support/write_error.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace fs = std::filesystem;

namespace dtc {

Trainer::Trainer(Executor &executor, abi::Training training, ProgramOptions options, std::string program, int threads)
    : executor(executor), training(std::move(training)), options(std::move(options)), threads(threads),
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
    checkpointer.emplace(state, executor.communicator(), inFolder(RunFiles::Checkpoints), checkpointOptions());
  runTogether(executor.communicator(), [&] {
    if (isFirst())
      announce();
  });
}

//===----------------------------------------------------------------------===//
// Before the first step
//===----------------------------------------------------------------------===//

/// How this rank was started is how all were: else one would wait where another does not.
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

/// Tries everything that will be written, before anything is read: who lacks the rights is told now and not after the
/// last step. What is there stays as it is until the run begins.
void Trainer::openOutputs() {
  runTogether(executor.communicator(), [&] {
    if (!isFirst())
      return;
    asOption("--out " + options.out, [&] {
      directory.emplace(options.out);
      metrics.emplace(inFolder(RunFiles::Metrics), options.tensorboard ? options.out : "");
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
        losses.emplace(options.lossFile);
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
                                        warn(message);
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

/// From here on the run is real: outputs become its own, and the user is told what it is.
void Trainer::announce() {
  if (!options.evalOnly)
    describeRun(options.out, executor.manifest(), training);
  if (options.resume.empty() || options.evalOnly)
    metrics->begin(/*append=*/options.evalOnly);
  else // what was told of steps that are done again is told again
    metrics->goOnAfter(done.step);
  if (losses)
    options.startedAgain ? losses->goOnAfter(done.step) : losses->begin(/*append=*/false);
  int ranks = executor.communicator().size();
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  bool sixteenBits = executor.manifest().training().compute() != "f32";
  std::optional<DeviceFigures> figures = executor.device().figures(sixteenBits);
  peakFlops = figures ? figures->peakFlops : peakShare(measurePeakFlops(), threads, cores, ranks);
  progress.emplace(done.step, training.steps(), isatty(STDOUT_FILENO));
  stragglers.emplace(abi::roleIndices(executor.manifest(), ranks));
  note(fmt::format("{} on {} ({} rank{}, {} thread{} each); {} training and {} held-out samples of {} tokens{}",
                   executor.manifest().model_name(), describeMesh(executor.manifest().mesh()), ranks,
                   ranks == 1 ? "" : "s", threads, threads == 1 ? "" : "s", sampler->trainingSamples(),
                   sampler->validationSamples(), training.sequence_length(),
                   done.step ? fmt::format("; going on after step {}", done.step) : ""));
  note("start: " + origin + (changes.empty() ? "" : fmt::format("; since then {}", fmt::join(changes, "; "))));
  announceData();
  if (!options.evalOnly && !replicas.describe().empty())
    note(replicas.describe());
  noteDevice();
}

void Trainer::announceData() {
  for (size_t i = 0; sources.size() > 1 && i < sources.size(); ++i) {
    auto used = static_cast<double>(sampler->trainingSamplesOf(i));
    note(fmt::format("{}: weight {}, {} of an epoch's samples; they go {:.2f} times through its {}",
                     sources[i].data.describe(), sources[i].weight, sampler->trainingSamplesOf(i),
                     used / static_cast<double>(sampler->windowsOf(i)), sampler->windowsOf(i)));
  }
  std::vector<const TokenData *> all;
  for (const Source &source : sources)
    all.push_back(&source.data);
  all.push_back(&validationData);
  for (const TokenData *tokens : all)
    if (tokens->hasMask())
      note(fmt::format("{}: {} of {} tokens count as targets, by the loss masks beside", tokens->describe(),
                       tokens->counted(), tokens->size()));
}

/// What the device has decided by now.
void Trainer::noteDevice() {
  for (const std::string &line : executor.device().takeNotes())
    note(line);
}

void Trainer::note(const std::string &line) {
  if (progress)
    progress->note(line);
}

/// On the rank that noticed.
void Trainer::warn(const std::string &message) {
  if (message.empty())
    return;
  if (progress)
    progress->clear();
  logWarning(message);
}

void Trainer::noteStop(int signal) {
  note(fmt::format("stopped after step {} by signal {}; go on with --resume {}", done.step, signal, options.out));
  if (signal == SIGPIPE && isFirst()) // which nobody reads
    logNews(fmt::format("stopped after step {}: nobody reads the output any more; go on with --resume {}", done.step,
                        options.out));
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

int Trainer::run() {
  StepRunner steps(executor, *sampler, training, [this] { awaitCopy(); });
  int code = 0;
  steps.refresh(); // whatever the weights are: made, read or resumed from
  if (options.evalOnly) {
    evaluate(steps);
  } else {
    if (options.replayCheck)
      note(steps.checkByReplay(options.replayCheck));
    try {
      std::error_code unknown; // for what is to be told of this run from now on
      executor.communicator().whereabouts().noteFolder(fs::absolute(options.out, unknown).string());
      code = trainSteps(steps);
    } catch (const Error &error) {
      saveWhatWasGood(error);
      throw;
    }
    finishTrace();
    note("metrics: " + inFolder(RunFiles::Metrics) +
         (options.tensorboard ? ", also for tensorboard --logdir " + options.out : ""));
  }
  closeOutputs(code);
  return code;
}

/// Where a step is not finite or copies of the state differ, all ranks find it: the checkpoint under way, of a step
/// before, can be brought to its end.
void Trainer::saveWhatWasGood(const Error &error) {
  if (error.exitCode() != ExitCode::NonFinite && error.exitCode() != ExitCode::Corrupted)
    return;
  try {
    tellCheckpoint(checkpointer->finish());
  } catch (const PeerLostError &) {
    throw;
  } catch (const Error &another) {
    warn(another.what());
  }
}

/// What could not be written was told when it happened, and the run went on; now it decides the exit code, unless a
/// signal does.
void Trainer::closeOutputs(int code) {
  runTogether(executor.communicator(), [&] {
    auto close = [&](auto &log) {
      try {
        if (log)
          log->close();
      } catch (const Error &error) {
        unwritten.push_back(error.what());
      }
    };
    close(metrics);
    close(losses);
    if (unwritten.empty())
      return;
    std::string message = fmt::format("{}; nothing of the run itself is lost", fmt::join(unwritten, "; "));
    if (code == 0)
      throw Error(message);
    warn(message);
  });
}

int Trainer::trainSteps(StepRunner &steps) {
  if (training.checkpoint_every() > 0 && done.step + training.checkpoint_every() < training.steps())
    checkpointer->prepare();
  int64_t evaluated = -1;
  auto isDue = [&](int64_t every) { return every > 0 && done.step % every == 0; };
  while (done.step < training.steps()) {
    trainStep(steps);
    if (replicas.isDue(done.step) && !steps.isUnderWay())
      replicas.compare(done.step);
    bool evaluates = isDue(training.eval_every()),
         saves = isDue(training.checkpoint_every()) && done.step < training.steps();
    if (evaluates) {
      evaluate(steps);
      evaluated = done.step;
    }
    if (saves)
      beginCheckpoint();
    if (evaluates || saves) // which may have taken long
      heed(exchangeNews(0));
    if (stop && !steps.isUnderWay()) {
      finishCheckpoint();
      noteStop(stop);
      return 128 + stop;
    }
  }
  if (evaluated != done.step)
    evaluate(steps);
  finishCheckpoint();
  return 0;
}

/// Once a step: who asks to stop, how far the checkpoint under way is, and for how long each rank computed.
std::vector<StepNews> Trainer::exchangeNews(double computed) {
  StepNews news = checkpointer->news();
  news.signal = interruptRequested();
  news.interval = replicas.wantedInterval();
  news.computed = computed;
  std::vector<StepNews> all;
  for (int64_t packed : executor.communicator().exchange(news.pack()))
    all.push_back(StepNews::unpack(packed));
  return all;
}

void Trainer::heed(const std::vector<StepNews> &all) {
  if (replicas.setInterval(all.front().interval))
    note(fmt::format("replicas are compared every {} steps and before each checkpoint", all.front().interval));
  tellCheckpoint(checkpointer->take(all));
  if (int signal = std::ranges::max(all, {}, &StepNews::signal).signal)
    stop = signal;
}

/// Whether nothing looks at the state between the step to come and the one after it.
bool Trainer::mayGoOn() const {
  int64_t after = done.step + 1;
  auto isDue = [&](int64_t every) { return every > 0 && after % every == 0; };
  return after < training.steps() && !stop && !isDue(training.eval_every()) && !isDue(training.checkpoint_every()) &&
         !replicas.isDue(after);
}

void Trainer::trainStep(StepRunner &steps) {
  if (done.step + 1 == options.traceFirst)
    startTrace();
  if (std::optional<DeviceFigures> figures = executor.device().figures(false))
    waitedBefore = figures->waitedSeconds;
  int64_t begin = now();
  double computedBefore = executor.computeSeconds();
  if (steps.hasLossScale() && !done.lossScale)
    done.lossScale = LossScale{.value = training.loss_scale()};
  LossScale scale = done.lossScale.value_or(LossScale()), before = scale;
  StepResult result = steps.train(done.step, done.samples, scale, mayGoOn());
  noteDevice();
  if (done.lossScale)
    done.lossScale = scale;
  int64_t end = now();
  replicas.noteStep(static_cast<double>(end - begin) / 1e9);
  ++done.step;
  done.samples += training.global_batch();
  if (trace)
    trace->step(done.step, begin, end);
  if (done.step == options.traceLast)
    finishTrace();
  if (!result.applied)
    note(fmt::format("step {}: gradients overflowed at a loss scale of {}; the step was skipped, the scale is {} now",
                     done.step, before.value, scale.value));
  std::vector<StepNews> news = exchangeNews(executor.computeSeconds() - computedBefore);
  if (isFirst())
    report(result, static_cast<double>(end - begin) / 1e9, news);
  heed(news);
}

/// How long each rank computed. None where nobody waits for another, or the host does not know it.
void Trainer::reportComputed(const std::vector<StepNews> &news, StepMetrics &line) {
  if (news.size() == 1 || executor.device().figures(false))
    return;
  std::vector<double> seconds;
  for (const StepNews &its : news)
    seconds.push_back(its.computed);
  line.compute.emplace(seconds);
  warn(stragglers->step(seconds));
}

void Trainer::report(const StepResult &result, double seconds, const std::vector<StepNews> &news) {
  int64_t tokens = training.global_batch() * training.sequence_length();
  int ranks = executor.communicator().size();
  StepMetrics line;
  line.step = done.step;
  line.time = std::chrono::system_clock::now();
  line.loss = result.loss;
  line.gradientNorm = result.gradientNorm;
  line.learningRate = result.learningRate;
  line.tokensSeen = done.samples * training.sequence_length();
  line.setRates(tokens, seconds, ranks, executor.manifest().flops_per_token(), peakFlops);
  line.dataSeconds = result.dataSeconds;
  line.arenaGiB = static_cast<double>(executor.role().arena_bytes()) / (1 << 30);
  line.peakMemoryGiB = peakMemoryGiB();
  if (std::optional<DeviceFigures> figures = executor.device().figures(false)) {
    line.peakMemoryGiB = static_cast<double>(figures->memoryBytes) / (1 << 30);
    line.deviceWaitSeconds = figures->waitedSeconds - waitedBefore;
  }
  line.checkpointSeconds = std::exchange(checkpointSeconds, std::nullopt);
  line.replicaSeconds = replicas.takeSeconds();
  reportComputed(news, line);
  warn(metrics->step(line));
  if (losses)
    warn(losses->append(done.step, fmt::format("{} {:.17g}\n", done.step, result.loss)));
  progress->step(line, ranks);
}

void Trainer::evaluate(StepRunner &steps) {
  if (sampler->validationSamples() == 0)
    return;
  double loss = steps.evaluate();
  if (!std::isfinite(loss))
    blameWeights(loss);
  note(fmt::format("step {}: held-out loss {:.4f} nats per token", done.step, loss));
  if (metrics)
    warn(metrics->validation(done.step, std::chrono::system_clock::now(), loss));
}

/// The loss is the same on all ranks. One that holds a bad weight names it.
void Trainer::blameWeights(double loss) {
  runTogether(executor.communicator(), [&] {
    try {
      state.requireFinite();
    } catch (const Error &error) {
      throw Error(ExitCode::NonFinite,
                  fmt::format("step {}: the held-out loss is {}: {}", done.step, loss, error.what()));
    }
  });
  throw Error(ExitCode::NonFinite,
              isFirst() ? fmt::format("step {}: the held-out loss is {} though all weights are finite", done.step, loss)
                        : "");
}

//===----------------------------------------------------------------------===//
// Checkpoints
//===----------------------------------------------------------------------===//

namespace {
/// Adds to a sum how long it lives.
class Waiting {
public:
  explicit Waiting(std::optional<double> &sum) : sum(sum) {}
  ~Waiting() { sum = sum.value_or(0) + static_cast<double>(now() - begin) / 1e9; }

private:
  std::optional<double> &sum;
  int64_t begin = now();
};
} // namespace

/// Written while training goes on; the one before must be done by then.
void Trainer::beginCheckpoint() {
  replicas.compare(done.step);
  Waiting waiting(checkpointSeconds);
  tellCheckpoint(checkpointer->finish());
  checkpointer->begin(done);
  lastCheckpoint = done.step;
}

/// Before the state changes.
void Trainer::awaitCopy() {
  if (!checkpointer || !checkpointer->isCopying())
    return;
  Waiting waiting(checkpointSeconds);
  checkpointer->awaitCopy();
}

/// The last one, for which nothing needs to be copied: training is over.
void Trainer::finishCheckpoint() {
  tellCheckpoint(checkpointer->finish());
  if (lastCheckpoint == done.step)
    return;
  replicas.compare(done.step);
  checkpointer->beginInPlace(done);
  lastCheckpoint = done.step;
  tellCheckpoint(checkpointer->finish());
}

/// A launcher that starts ranks again wants to know how far they came.
Checkpointer::Options Trainer::checkpointOptions() {
  Whereabouts &here = executor.communicator().whereabouts();
  return {.keep = training.keep(),
          .warn = [this](const std::string &message) { warn(message); },
          .onPublished = [&here](int64_t step) { here.noteCheckpoint(step); }};
}

void Trainer::tellCheckpoint(const std::optional<std::string> &path) {
  if (path)
    note("checkpoint: " + *path);
}

//===----------------------------------------------------------------------===//
// Trace
//===----------------------------------------------------------------------===//

void Trainer::startTrace() {
  trace = std::make_unique<Trace>(executor.manifest(), executor.rank());
  executor.observe(trace.get());
}

void Trainer::finishTrace() {
  if (!trace)
    return;
  executor.observe(nullptr);
  std::string path = inFolder(RunFiles::Trace);
  try {
    writeTrace(*trace, executor.communicator(), path);
    note(fmt::format("trace: {} (open it at ui.perfetto.dev)", path));
  } catch (const PeerLostError &) {
    throw;
  } catch (const Error &error) { // on all ranks; the one that met it has words
    if (*error.what()) {
      unwritten.push_back(error.what());
      warn(fmt::format("step {}: the trace: {}. Training goes on", done.step, error.what()));
    }
  }
  trace.reset();
}

} // namespace dtc
