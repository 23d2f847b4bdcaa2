// What a training run reports: notes and warnings for people, and on rank 0 progress, metrics and losses.
#pragma once

#include "runtime/executor/executor.h"
#include "runtime/observe/log_file.h"
#include "runtime/observe/metrics.h"
#include "runtime/observe/progress.h"
#include "runtime/observe/stragglers.h"
#include "runtime/program/start/options.h"
#include "runtime/program/train/training_observer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

class TrainingReport final : public TrainingObserver {
public:
  /// All outlive the report, and may change until begin().
  TrainingReport(const Executor &executor, const abi::Training &training, const ProgramOptions &options)
      : executor(executor), training(training), options(options) {}

  // On rank 0, before the first step. The first two try files and change nothing in them; they throw Error naming path
  // and reason when one cannot be written.
  void openMetrics();
  void openLosses();
  /// From here on the files are this run's, and notes are printed. `done`: what is done already.
  void begin(const TrainerState &done, int threads);

  /// Prints a line that stays; does nothing on ranks that print no progress.
  void note(const std::string &line);
  /// What the device has decided by now.
  void noteDevice();
  /// On whichever rank noticed; does nothing for an empty message.
  void warn(const std::string &message);
  /// Something could not be written and the run goes on; close() reports it again.
  void noteUnwritten(const std::string &message) { unwritten.push_back(message); }
  /// The held-out loss after so many steps.
  void noteEvaluation(int64_t step, double loss);

  /// Closes the files. Write errors were reported when they happened, and the run continued; now they decide the exit
  /// code, unless a signal does: throws Error (Runtime) if `code` is 0. Collective.
  void close(int code);

  void beginStep(int64_t step) override;
  void stepRan() override { noteDevice(); }
  void stepComputed(const ComputedStep &step) override;
  void reportStep(const TrainerState &done, const ComputedStep &step, const std::vector<StepNews> &news,
                  StepMetrics &line) override;
  void endTraining(const TrainerState &done, int signal) override;
  void endRun() override;

private:
  void addComputed(const std::vector<StepNews> &news, StepMetrics &line);
  bool isFirst() const { return executor.rank() == 0; }

  const Executor &executor;
  const abi::Training &training;
  const ProgramOptions &options;
  std::vector<std::string> unwritten; // what this rank could not write beside checkpoints, and why
  // Only on rank 0.
  std::optional<StragglerWatch> stragglers; // where ranks' own times are known
  std::optional<Progress> progress;
  std::optional<MetricsWriter> metrics;
  std::optional<LogFile> losses;
  double peakFlops = 0;    // of the device, for this rank; 0: nobody knows
  double waitedBefore = 0; // for the device, before the step
};

} // namespace dtc
