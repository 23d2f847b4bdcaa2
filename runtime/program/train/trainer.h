// The training run of one rank: prepares outputs, data and state, and puts together the loop of steps
// (training_loop.h) and the observers that report, evaluate, compare replicas, trace and save (training_observer.h).
#pragma once

#include "runtime/checkpoint/replicas.h"
#include "runtime/checkpoint/state.h"
#include "runtime/checkpoint/trainer_state.h"
#include "runtime/data/sampler.h"
#include "runtime/data/sources.h"
#include "runtime/executor/executor.h"
#include "runtime/program/output_directory.h"
#include "runtime/program/start/options.h"
#include "runtime/program/train/checkpoint_policy.h"
#include "runtime/program/train/held_out_evaluation.h"
#include "runtime/program/train/training_loop.h"
#include "runtime/program/train/training_report.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

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
  int train(TrainingLoop &loop, HeldOutEvaluation &evaluation);
  std::string inFolder(const char *name) const { return std::filesystem::path(options.out) / name; }
  bool isFirst() const { return executor.rank() == 0; }

  Executor &executor;
  abi::Training training;
  ProgramOptions options;
  int threads;
  std::optional<OutputDirectory> directory; // rank 0's: before and after all that is read or written in it
  TrainingReport report;
  RankState state;
  ReplicaCheck replicas;
  TrainerState done;
  std::string origin;               // where the parameters come from, for people
  std::vector<std::string> changes; // since the checkpoint that is gone on from
  std::vector<Source> sources;
  TokenData validationData;
  std::optional<Sampler> sampler;
  int64_t lastCheckpoint = -1;                 // steps of the checkpoint that is gone on from; -1: none
  std::optional<CheckpointPolicy> checkpoints; // where something is trained
};

} // namespace dtc
