// Runs one training step or one evaluation: the role's timetables.
//
// What the lists compute is theirs to know. Before an entry runs, the inputs that its list reads are filled in, for its
// micro-batch and its step, in the place that it names; inputs that are already there are kept. Nothing is decided
// between two entries: whether the state changes is a scalar on the device ("update_applied"), which the host reads
// when the step is over. Only then may another timetable follow ("redo"), where an update came before what it depends
// on was known, and turned out to be wrong.
#pragma once

#include "runtime/checkpoint/loss_scale.h"
#include "runtime/data/sampler.h"
#include "runtime/executor/executor.h"
#include "runtime/program/entry_inputs.h"
#include "runtime/program/evaluate/evaluator.h"
#include "runtime/program/train/replay_check.h"

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
  /// `follow`: how many steps surely follow it, stepsAhead() or more of them being as good as any number. They may have
  /// begun when this one ends; where any has, isUnderWay() says so, and the next call must be that for the next step.
  StepResult train(int64_t step, int64_t position, LossScale &scale, int64_t follow = 0);
  bool isUnderWay() const { return underWay; }
  /// How far ahead of the running step the program's ranks work; 0: its steps do not overlap.
  int64_t stepsAhead() const { return ahead; }

  /// Whether the program takes a loss scale.
  bool hasLossScale() const { return takesLossScale; }

  /// Updates everything derived from parameters; call it whenever the host has written them.
  void refresh();

  /// Mean loss per token over the held-out samples: training.eval_batches global batches of them, or all for 0.
  double evaluate();

private:
  /// Where training is: what inputs follow from.
  struct Now {
    int64_t step, position; ///< as of train()
    LossScale scale;
  };
  using Fill = std::function<void(const abi::TimetableEntry &, const Now &)>;
  void run(const abi::TimetableEntry &entry);
  void beginOrGoOn(const Now &now, int64_t follow, const Fill &fill);
  void runEntries(const abi::Timetable &timetable, const Now &now, const Fill &fill, int from = 0);
  void fillForTraining(const abi::TimetableEntry &entry, const Now &now);
  void fillKey(const abi::Tensor &tensor, uint32_t place, int64_t step, int64_t firstRow);
  double scalarOf(const abi::Source &source, int64_t step, const Now &now) const;
  bool isFinite() const;
  [[noreturn]] void blameNonFinite(const Now &now);
  [[noreturn]] void blameOverlapping(const Now &now) const;
  [[noreturn]] void blameGradients(const std::string &step) const;
  /// "step 3", and the loss scale where it can be no smaller.
  std::string describeStep(const Now &now) const;

  Executor &executor;
  const Sampler &sampler;
  const abi::Training &training;
  std::function<void()> beforeStateChanges;
  std::set<std::string> stateWriters; ///< lists
  std::optional<ReplayCheck> replay;
  EntryInputs inputs;
  Evaluator evaluator;
  int64_t ahead;
  bool underWay = false;      ///< a step that train() has not been called for
  int64_t first = 0, end = 0; ///< of the run of steps that are under way, or were last
  bool redoes;                ///< an update may have come too early
  bool takesLossScale;
  int64_t microRows; ///< of one micro-batch, over all ranks
};

} // namespace dtc
