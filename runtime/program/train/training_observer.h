// The moments of a training run. The loop of steps (training_loop.h) calls observers at each of them and knows nothing
// else of what they do:
//
//   beginTraining
//     for each step:
//       beginStep, beforeStateChanges, stepRan, stepComputed
//       addNews, addMetrics, reportStep, takeNews               ranks exchange what they know about the step
//       afterStep                                               the state is evaluated, saved, ...
//       addNews, takeNews                                       again, if afterStep may have taken long
//   endTraining, endRun; or failTraining
//
// At each moment all observers are called, in the order in which they were added, before the next moment comes. All
// ranks have the same observers and all moments alike, so that an observer may use the communicator, except that
// addMetrics and reportStep are called on rank 0 alone, beforeStateChanges as often as a rank's lists ask for it, and
// failTraining where the error is.
#pragma once

#include "runtime/checkpoint/loss_scale.h"
#include "runtime/checkpoint/step_news.h"
#include "runtime/checkpoint/trainer_state.h"
#include "runtime/observe/metrics.h"
#include "runtime/program/train/step.h"
#include "runtime/support/error.h"

#include <cstdint>
#include <vector>

namespace dtc {

/// A step that this rank has computed.
struct ComputedStep {
  int64_t number = 0; ///< counted from 1
  StepResult result;
  LossScale scaleBefore, scaleAfter; ///< the same where the program has none
  int64_t begin = 0, end = 0;        ///< CLOCK_MONOTONIC nanoseconds

  double seconds() const { return static_cast<double>(end - begin) / 1e9; }
};

/// Each moment does nothing unless it is overridden.
class TrainingObserver {
public:
  virtual ~TrainingObserver() = default;

  /// Before the first step. `done`: what is done already.
  virtual void beginTraining(const TrainerState & /*done*/) {}

  /// Before a step, counted from 1, and before its time is taken.
  virtual void beginStep(int64_t /*step*/) {}
  /// Before each list that writes parameters or slots.
  virtual void beforeStateChanges() {}
  /// The step is computed; what is done here counts as its time.
  virtual void stepRan() {}
  virtual void stepComputed(const ComputedStep & /*step*/) {}

  /// What this rank tells all others.
  virtual void addNews(StepNews & /*news*/) {}
  /// On rank 0: adds the numbers that this observer knows to the step's line of metrics.
  virtual void addMetrics(StepMetrics & /*line*/) {}
  /// On rank 0: the line, with what observers have added. `done` includes the step; `news`: by rank.
  virtual void reportStep(const TrainerState & /*done*/, const ComputedStep & /*step*/,
                          const std::vector<StepNews> & /*news*/, StepMetrics & /*line*/) {}
  /// What all ranks have told, by rank.
  virtual void takeNews(const std::vector<StepNews> & /*news*/) {}

  /// Whether the observer reads the state after this step, so that no later one must begin before. It is asked some
  /// steps ahead, too.
  virtual bool readsState(int64_t /*step*/) const { return false; }
  /// `isUnderWay`: a later step has begun, and the state is no longer that of this step. It begins early only where no
  /// observer has said that it reads the state. Returns whether this may have taken long.
  virtual bool afterStep(const TrainerState & /*done*/, bool /*isUnderWay*/) { return false; }

  /// After the last step: all are done (`signal` is 0), or a signal has asked to stop.
  virtual void endTraining(const TrainerState & /*done*/, int /*signal*/) {}
  /// Instead of endTraining, where an error ends training.
  virtual void failTraining(const Error & /*error*/) {}
  /// After endTraining.
  virtual void endRun() {}
};

} // namespace dtc
