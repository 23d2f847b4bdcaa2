// The training run of one rank: state in, steps, evaluations, checkpoints, and what is told about them.
#pragma once

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpointer.h"
#include "runtime/checkpoint/replicas.h"
#include "runtime/checkpoint/step_news.h"
#include "runtime/data/sampler.h"
#include "runtime/data/sources.h"
#include "runtime/executor/executor.h"
#include "runtime/observe/metrics.h"
#include "runtime/observe/progress.h"
#include "runtime/observe/trace.h"
#include "runtime/program/output_directory.h"
#include "runtime/program/start/options.h"
#include "runtime/program/train/step.h"

#include <filesystem>
#include <memory>
#include <optional>

namespace dtc {

class Trainer {
public:
  /// Reads data and state; all ranks construct it together. `training`: the manifest's with the user's changes.
  /// `program`: what checkpoints tell of the program that wrote them.
  Trainer(Executor &executor, abi::Training training, ProgramOptions options, std::string program, int threads);

  /// Returns the exit code: 0, or 128 + n when signal n asked to stop.
  int run();

private:
  void openOutputs();
  void requireSharedFolder();
  void openData();
  void drawSamples();
  void loadState();
  void resumeState();
  void loadWeights();
  void requireSameStart() const;
  void requireTraceSteps() const;
  void announce();
  void announceData();
  int trainSteps(StepRunner &steps);
  bool mayGoOn() const;
  void trainStep(StepRunner &steps);
  void report(const StepResult &result, double seconds, const std::vector<StepNews> &news);
  void reportComputed(const std::vector<StepNews> &news, StepMetrics &line);
  void evaluate(StepRunner &steps);
  [[noreturn]] void blameWeights(double loss);
  void beginCheckpoint();
  void finishCheckpoint();
  void saveWhatWasGood(const Error &error);
  Checkpointer::Options checkpointOptions();
  void tellCheckpoint(const std::optional<std::string> &path);
  std::vector<StepNews> exchangeNews(double computed);
  void heed(const std::vector<StepNews> &all);
  void awaitCopy();
  void startTrace();
  void finishTrace();
  void closeOutputs(int code);
  std::string inFolder(const char *name) const { return std::filesystem::path(options.out) / name; }
  void note(const std::string &line);
  void noteDevice();
  void warn(const std::string &message);
  void noteStop(int signal);
  bool isFirst() const { return executor.rank() == 0; }

  Executor &executor;
  abi::Training training;
  ProgramOptions options;
  int threads;
  std::optional<OutputDirectory> directory; // rank 0's: before all that is read or written in it
  RankState state;
  ReplicaCheck replicas;
  TrainerState done;
  std::string origin;               // where the parameters come from, for people
  std::vector<std::string> changes; // since the checkpoint that is gone on from
  std::vector<Source> sources;
  TokenData validationData;
  std::optional<Sampler> sampler;
  std::optional<Checkpointer> checkpointer; // where something is trained
  int stop = 0;                             // the signal by which somebody asks to stop
  int64_t lastCheckpoint = -1;              // steps done when it was begun
  std::optional<double> checkpointSeconds;  // that training has waited for checkpoints since the last line of metrics
  std::unique_ptr<Trace> trace;
  std::vector<std::string> unwritten; // what this rank could not write beside checkpoints, and why
  // Rank 0 alone tells.
  std::optional<StragglerWatch> stragglers; // where ranks' own times are known
  std::optional<Progress> progress;
  std::optional<MetricsWriter> metrics;
  std::optional<LogFile> losses;
  double peakFlops = 0;    // of the device, for this rank; 0: nobody knows
  double waitedBefore = 0; // for the device, before the step
};

} // namespace dtc
