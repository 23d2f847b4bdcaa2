// When a run compares the copies of its state: at the interval of steps that rank 0 chooses, and before each checkpoint
// (checkpoint_policy.h). What is compared: replicas.h.
//
// Where steps overlap, a comparison would end a run of them, and may so change what steps compute with. The interval
// depends on how long things take, and results must not. So these runs compare only where steps end for another reason.
#pragma once

#include "runtime/checkpoint/replicas.h"
#include "runtime/program/train/training_observer.h"
#include "runtime/program/train/training_report.h"

#include <cstdint>
#include <vector>

namespace dtc {

class ReplicaComparison final : public TrainingObserver {
public:
  /// Both outlive it. `overlaps`: steps do.
  ReplicaComparison(ReplicaCheck &replicas, TrainingReport &report, bool overlaps)
      : replicas(replicas), report(report), overlaps(overlaps) {}

  void stepComputed(const ComputedStep &step) override { replicas.noteStep(step.seconds()); }
  void addNews(StepNews &news) override { news.interval = replicas.wantedInterval(); }
  void addMetrics(StepMetrics &line) override { line.replicaSeconds = replicas.takeSeconds(); }
  void takeNews(const std::vector<StepNews> &news) override;
  bool readsState(int64_t step) const override { return !overlaps && replicas.isDue(step); }
  bool afterStep(const TrainerState &done, bool isUnderWay) override;

private:
  ReplicaCheck &replicas;
  TrainingReport &report;
  bool overlaps;
};

} // namespace dtc
