#include "runtime/program/train/held_out_evaluation.h"

#include "runtime/comm/run_together.h"
#include "runtime/support/error.h"

#include <cmath>
#include <fmt/format.h>

namespace dtc {

bool HeldOutEvaluation::readsState(int64_t step) const {
  int64_t every = context.training.eval_every();
  return every > 0 && step % every == 0;
}

bool HeldOutEvaluation::afterStep(const TrainerState &done, bool) {
  if (!readsState(done.step))
    return false;
  evaluate(done.step);
  evaluated = done.step;
  return true;
}

/// A run stopped by a signal ends without an evaluation.
void HeldOutEvaluation::endTraining(const TrainerState &done, int signal) {
  if (!signal && evaluated != done.step)
    evaluate(done.step);
}

void HeldOutEvaluation::evaluate(int64_t step) {
  if (context.sampler.validationSamples() == 0)
    return;
  double loss = context.steps.evaluate();
  if (!std::isfinite(loss))
    blameWeights(step, loss);
  context.report.noteEvaluation(step, loss);
}

/// The loss is the same on all ranks. A rank with a bad weight names it.
void HeldOutEvaluation::blameWeights(int64_t step, double loss) {
  runTogether(context.communicator, [&] {
    try {
      context.state.requireFinite();
    } catch (const Error &error) {
      throw Error(ExitCode::NonFinite, fmt::format("step {}: the held-out loss is {}: {}", step, loss, error.what()));
    }
  });
  throw Error(ExitCode::NonFinite,
              context.communicator.rank() == 0
                  ? fmt::format("step {}: the held-out loss is {} though all weights are finite", step, loss)
                  : "");
}

} // namespace dtc
