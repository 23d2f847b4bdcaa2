// One training step and one evaluation: the role's timetables, walked.
//
// What the lists compute is theirs to know. An entry with a micro-batch has that micro-batch's inputs filled in before
// it runs; the scalars of a step are filled in before its first entry. Nothing is decided between two entries: whether
// the state changes is a scalar on the device ("update_applied"), which the host reads when the step is over.
#pragma once

#include "runtime/checkpoint/loss_scale.h"
#include "runtime/executor/executor.h"
#include "runtime/program/batch_inputs.h"
#include "runtime/program/replay_check.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dtc {

struct StepResult {
  double loss = 0; ///< mean over the step's valid tokens of all ranks
  std::optional<double> gradientNorm;
  double learningRate = 0;
  double dataSeconds = 0; ///< spent on filling inputs
  bool applied = true;    ///< false: gradients overflowed at the loss scale, and the state is as it was
};

class StepRunner {
public:
  /// All outlive the runner. `training` is the manifest's with the user's changes. `beforeStateChanges` is called
  /// before each entry whose list writes parameters or slots.
  StepRunner(Executor &executor, const Sampler &sampler, const abi::Training &training,
             std::function<void()> beforeStateChanges = {});

  /// Has every `every`-th step computed twice before its update (replay_check.h), which then may throw Error
  /// (Corrupted), and says so.
  std::string checkByReplay(int64_t every);

  /// Runs step `step` (from 0) on the global batch that begins at training sample `position`. Where the step left the
  /// state as it was because loss or gradients are not finite, throws Error (NonFinite) on all ranks; the rank where
  /// the first such value arose names it. Where the program has a loss scale, `scale` is it and follows what happened:
  /// only an overflow at its floor throws.
  StepResult train(int64_t step, int64_t position, LossScale &scale);

  /// Whether the program takes a loss scale.
  bool hasLossScale() const { return executor.hasTensor("loss_scale"); }

  /// Makes what is derived of parameters; to be called whenever the host has written them.
  void refresh();

  /// Mean loss per token over the held-out samples: training.eval_batches global batches of them, or all for 0.
  double evaluate();

private:
  /// Puts into an input what fill(values) writes.
  template <typename Fill> void fillInput(const BatchInput &input, Fill fill);
  void run(const abi::TimetableEntry &entry);
  void fillMicroBatch(int64_t step, int64_t position, int64_t microBatch);
  void fillScalars(int64_t step, double rate, const LossScale &scale);
  bool isFinite() const;
  [[noreturn]] void blameNonFinite(int64_t step, int64_t position, const LossScale &scale);
  [[noreturn]] void blameGradients(const std::string &step) const;
  /// "step 3", and the loss scale where it can be no smaller.
  std::string describeStep(int64_t step, const LossScale &scale) const;
  void setScalar(const char *name, double value);

  Executor &executor;
  const Sampler &sampler;
  const abi::Training &training;
  std::function<void()> beforeStateChanges;
  std::set<std::string> stateWriters; ///< lists
  std::optional<ReplayCheck> replay;
  std::vector<BatchInput> inputs;
  std::vector<int32_t> staged; ///< of one input, on their way to the device
  int64_t microRows;           ///< of one micro-batch, over all ranks
  int64_t evaluationRows;      ///< of one evaluation, over all ranks
};

} // namespace dtc
