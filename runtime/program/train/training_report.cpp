#include "runtime/program/train/training_report.h"

#include "runtime/abi/roles.h"
#include "runtime/comm/run_together.h"
#include "runtime/observe/peak_flops.h"
#include "runtime/program/run_files.h"
#include "runtime/support/error.h"
#include "runtime/support/log_line.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <thread>
#include <unistd.h>

namespace dtc {

static std::string metricsPath(const ProgramOptions &options) {
  return std::filesystem::path(options.out) / RunFiles::Metrics;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

void TrainingReport::openMetrics() { metrics.emplace(metricsPath(options), options.tensorboard ? options.out : ""); }

void TrainingReport::openLosses() { losses.emplace(options.lossFile); }

void TrainingReport::begin(const TrainerState &done, int threads) {
  if (options.resume.empty() || options.evalOnly)
    metrics->begin(/*append=*/options.evalOnly);
  else // steps that run again are reported again
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
}

void TrainingReport::close(int code) {
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

//===----------------------------------------------------------------------===//
// Lines
//===----------------------------------------------------------------------===//

void TrainingReport::note(const std::string &line) {
  if (progress)
    progress->note(line);
}

void TrainingReport::noteDevice() {
  for (const std::string &line : executor.device().takeNotes())
    note(line);
}

void TrainingReport::warn(const std::string &message) {
  if (message.empty())
    return;
  if (progress)
    progress->clear();
  logWarning(message);
}

void TrainingReport::noteEvaluation(int64_t step, double loss) {
  note(fmt::format("step {}: held-out loss {:.4f} nats per token", step, loss));
  if (metrics)
    warn(metrics->validation(step, std::chrono::system_clock::now(), loss));
}

//===----------------------------------------------------------------------===//
// Moments of the run
//===----------------------------------------------------------------------===//

void TrainingReport::beginStep(int64_t) {
  if (std::optional<DeviceFigures> figures = executor.device().figures(false))
    waitedBefore = figures->waitedSeconds;
}

void TrainingReport::stepComputed(const ComputedStep &step) {
  if (!step.result.applied)
    note(fmt::format("step {}: gradients overflowed at a loss scale of {}; the step was skipped, the scale is {} now",
                     step.number, step.scaleBefore.value, step.scaleAfter.value));
}

void TrainingReport::reportStep(const TrainerState &done, const ComputedStep &step, const std::vector<StepNews> &news,
                                StepMetrics &line) {
  int64_t tokens = training.global_batch() * training.sequence_length();
  int ranks = executor.communicator().size();
  line.step = done.step;
  line.time = std::chrono::system_clock::now();
  line.loss = step.result.loss;
  line.gradientNorm = step.result.gradientNorm;
  line.learningRate = step.result.learningRate;
  line.tokensSeen = done.samples * training.sequence_length();
  line.setRates(tokens, step.seconds(), ranks, executor.manifest().flops_per_token(), peakFlops);
  line.dataSeconds = step.result.dataSeconds;
  line.arenaGiB = static_cast<double>(executor.role().arena_bytes()) / (1 << 30);
  line.peakMemoryGiB = peakMemoryGiB();
  if (std::optional<DeviceFigures> figures = executor.device().figures(false)) {
    line.peakMemoryGiB = static_cast<double>(figures->memoryBytes) / (1 << 30);
    line.deviceWaitSeconds = figures->waitedSeconds - waitedBefore;
  }
  addComputed(news, line);
  warn(metrics->step(line));
  if (losses)
    warn(losses->append(done.step, fmt::format("{} {:.17g}\n", done.step, step.result.loss)));
  progress->step(line, ranks);
}

/// How long each rank computed. None where nobody waits for another, or the host does not know it.
void TrainingReport::addComputed(const std::vector<StepNews> &news, StepMetrics &line) {
  if (news.size() == 1 || executor.device().figures(false))
    return;
  std::vector<double> seconds;
  for (const StepNews &its : news)
    seconds.push_back(its.computed);
  line.compute.emplace(seconds);
  warn(stragglers->step(seconds));
}

void TrainingReport::endTraining(const TrainerState &done, int signal) {
  if (!signal)
    return;
  note(fmt::format("stopped after step {} by signal {}; go on with --resume {}", done.step, signal, options.out));
  if (signal == SIGPIPE && isFirst()) // which nobody reads
    logNews(fmt::format("stopped after step {}: nobody reads the output any more; go on with --resume {}", done.step,
                        options.out));
}

void TrainingReport::endRun() {
  note("metrics: " + metricsPath(options) +
       (options.tensorboard ? ", also for tensorboard --logdir " + options.out : ""));
}

} // namespace dtc
