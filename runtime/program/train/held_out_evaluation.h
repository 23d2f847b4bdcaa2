// The held-out loss of a run: every so many steps, and after the last one.
#pragma once

#include "runtime/checkpoint/state.h"
#include "runtime/data/sampler.h"
#include "runtime/program/train/step.h"
#include "runtime/program/train/training_observer.h"
#include "runtime/program/train/training_report.h"

#include <cstdint>

namespace dtc {

class HeldOutEvaluation final : public TrainingObserver {
public:
  struct Context {
    StepRunner &steps;
    Communicator &communicator;
    const Sampler &sampler;
    const abi::Training &training; ///< the manifest's with the user's changes
    const RankState &state;
    TrainingReport &report;
  };
  /// All of the context outlives it.
  explicit HeldOutEvaluation(const Context &context) : context(context) {}

  /// Evaluates and reports the loss after `step` steps; does nothing where no sample is held out. Throws Error
  /// (NonFinite) where the loss is not finite. Collective.
  void evaluate(int64_t step);

  bool readsState(int64_t step) const override;
  bool afterStep(const TrainerState &done, bool isUnderWay) override;
  void endTraining(const TrainerState &done, int signal) override;

private:
  [[noreturn]] void blameWeights(int64_t step, double loss);

  Context context;
  int64_t evaluated = -1; // after how many steps it was done last
};

} // namespace dtc
