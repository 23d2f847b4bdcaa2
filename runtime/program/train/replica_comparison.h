// When a run compares the copies of its state: at the interval of steps that rank 0 chooses, and before each checkpoint
// (checkpoint_policy.h). What is compared: replicas.h.
#pragma once

#include "runtime/checkpoint/replicas.h"
#include "runtime/program/train/training_observer.h"
#include "runtime/program/train/training_report.h"

#include <cstdint>
#include <vector>

namespace dtc {

class ReplicaComparison final : public TrainingObserver {
public:
  /// Both outlive it.
  ReplicaComparison(ReplicaCheck &replicas, TrainingReport &report) : replicas(replicas), report(report) {}

  void stepComputed(const ComputedStep &step) override { replicas.noteStep(step.seconds()); }
  void addNews(StepNews &news) override { news.interval = replicas.wantedInterval(); }
  void addMetrics(StepMetrics &line) override { line.replicaSeconds = replicas.takeSeconds(); }
  void takeNews(const std::vector<StepNews> &news) override;
  bool readsState(int64_t step) const override { return replicas.isDue(step); }
  bool afterStep(const TrainerState &done, bool isUnderWay) override;

private:
  ReplicaCheck &replicas;
  TrainingReport &report;
};

} // namespace dtc
