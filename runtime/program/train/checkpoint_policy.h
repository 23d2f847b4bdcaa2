// When a run writes checkpoints: at an interval of steps while training continues, and after the last step, even if a
// signal stops the run. If a step is not finite, the checkpoint in progress is still completed. How checkpoints are
// written and which are kept: checkpointer.h.
#pragma once

#include "runtime/checkpoint/checkpointer.h"
#include "runtime/checkpoint/replicas.h"
#include "runtime/program/train/training_observer.h"
#include "runtime/program/train/training_report.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

class CheckpointPolicy final : public TrainingObserver {
public:
  struct Context {
    const RankState &state;
    Communicator &communicator;
    const abi::Training &training; ///< the manifest's with the user's changes
    ReplicaCheck &replicas;        ///< compared before each checkpoint
    TrainingReport &report;
  };
  /// All of the context outlives it. `root`: the folder of the run's checkpoints. `lastCheckpoint`: after how many
  /// steps the run has one already; -1: it has none. Collective.
  CheckpointPolicy(const Context &context, std::string root, int64_t lastCheckpoint);

  void beginTraining(const TrainerState &done) override;
  void beforeStateChanges() override;
  void addNews(StepNews &news) override;
  void addMetrics(StepMetrics &line) override;
  void takeNews(const std::vector<StepNews> &news) override;
  bool readsState(int64_t step) const override;
  bool afterStep(const TrainerState &done, bool isUnderWay) override;
  void endTraining(const TrainerState &done, int signal) override;
  void failTraining(const Error &error) override;

private:
  Checkpointer::Options checkpointOptions();
  void begin(const TrainerState &done);
  void notePublished(const std::optional<std::string> &path);

  Context context;
  Checkpointer checkpointer;
  int64_t lastCheckpoint;              // steps done when it was begun
  std::optional<double> waitedSeconds; // time that training has waited for checkpoints since the last line of metrics
};

} // namespace dtc
