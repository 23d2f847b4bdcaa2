// The loop of steps: which step comes next, what it is given, and when to stop. Everything else that a run does is done
// by observers (training_observer.h).
#pragma once

#include "runtime/checkpoint/step_news.h"
#include "runtime/checkpoint/trainer_state.h"
#include "runtime/data/sampler.h"
#include "runtime/executor/executor.h"
#include "runtime/program/train/step.h"
#include "runtime/program/train/training_observer.h"
#include "runtime/support/not_copied.h"

#include <vector>

namespace dtc {

class TrainingLoop : NotCopied {
public:
  /// All outlive the loop. `training`: the manifest's with the user's changes. `done` follows what is done.
  TrainingLoop(Executor &executor, const Sampler &sampler, const abi::Training &training, TrainerState &done);

  /// Calls it at each moment of the run, after those added before. It outlives run().
  void add(TrainingObserver &observer) { observers.push_back(&observer); }

  StepRunner &steps() { return runner; }

  /// Trains from what is done to training.steps. Returns the exit code: 0, or 128 + n when signal n asked to stop.
  int run();

private:
  int trainSteps();
  void trainStep();
  ComputedStep computeStep();
  void reportStep(const ComputedStep &step, const std::vector<StepNews> &news);
  int64_t stepsToFollow() const;
  std::vector<StepNews> exchangeNews(double computed);
  void takeNews(const std::vector<StepNews> &news);
  template <typename... Parameters, typename... Arguments>
  void tell(void (TrainingObserver::*moment)(Parameters...), Arguments &&...arguments) {
    for (TrainingObserver *observer : observers)
      (observer->*moment)(arguments...);
  }

  Executor &executor;
  const abi::Training &training;
  TrainerState &done;
  std::vector<TrainingObserver *> observers;
  StepRunner runner;
  int stop = 0; ///< the signal that asked to stop
};

} // namespace dtc
