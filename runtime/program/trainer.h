// The training run of one rank: state in, steps, evaluations, checkpoints, and what is told about them.
#pragma once

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/sampler.h"
#include "runtime/data/token_data.h"
#include "runtime/executor/executor.h"
#include "runtime/observe/metrics.h"
#include "runtime/observe/progress.h"
#include "runtime/observe/trace.h"
#include "runtime/program/options.h"
#include "runtime/program/output_directory.h"
#include "runtime/program/step.h"

#include <cstdio>
#include <memory>
#include <optional>

namespace dtc {

class Trainer {
public:
  /// Reads data and state; all ranks construct it together. `training`: the manifest's with the user's changes.
  /// `program`: what checkpoints tell of the program that wrote them.
  Trainer(Executor &executor, abi::Training training, ProgramOptions options, std::string program, int threads);
  ~Trainer();

  /// Returns the exit code: 0, or 128 + n when signal n asked to stop.
  int run();

private:
  void openDirectory();
  void openData();
  void drawSamples();
  void loadState();
  void resumeState();
  void loadWeights();
  DataFingerprint fingerprintData();
  void openOutputs();
  std::string settingsText() const;
  int trainSteps(StepRunner &steps);
  void trainStep(StepRunner &steps);
  void report(const StepResult &result, double seconds);
  void evaluate(StepRunner &steps);
  [[noreturn]] void blameWeights(double loss);
  void checkpoint();
  void startTrace();
  void finishTrace();
  void note(const std::string &line);
  void noteStop(int signal);
  bool isFirst() const { return executor.rank() == 0; }

  Executor &executor;
  abi::Training training;
  ProgramOptions options;
  int threads;
  std::optional<OutputDirectory> directory; // rank 0's: before all that is read or written in it
  RankState state;
  TrainerState done;
  std::string origin;               // where the parameters come from, for people
  std::vector<std::string> changes; // since the checkpoint that is gone on from
  TokenData data, validationData;
  std::optional<Sampler> sampler;
  int64_t lastCheckpoint = -1; // steps done when it was written
  std::unique_ptr<Trace> trace;
  // Rank 0 alone tells.
  std::optional<Progress> progress;
  std::optional<MetricsWriter> metrics;
  std::FILE *losses = nullptr;
  double peakFlops = 0; // this rank's share of the machine's
};

} // namespace dtc
