#include "runtime/program/step.h"

#include "runtime/abi/error.h"
#include "runtime/program/schedule.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace dtc {

StepRunner::StepRunner(Executor &executor, const Sampler &sampler, const abi::Training &training)
    : executor(executor), sampler(sampler), training(training),
      inputs(batchInputsOf(executor.manifest(), executor.rank())) {
  if (inputs.size() != 2 || inputs[0].part == inputs[1].part)
    throw Error(ExitCode::BadInput, "damaged program: it does not have the inputs 'tokens' and 'targets' once each");
  const abi::Tensor &tokens = *inputs.front().tensor;
  if (tokens.global_shape(1) != training.sequence_length())
    throw Error(ExitCode::BadInput,
                fmt::format("damaged program: its inputs have {} columns, its sequence_length is {}",
                            tokens.global_shape(1), training.sequence_length()));
  microRows = tokens.global_shape(0);
  for (const abi::TimetableEntry &entry : executor.role().step())
    if (entry.list().starts_with("micro"))
      microBatches.push_back(entry);
}

void StepRunner::setScalar(const char *name, double value) {
  if (executor.hasTensor(name))
    executor.scalar(name) = static_cast<float>(value);
}

void StepRunner::fillMicroBatch(int64_t step, int64_t position, int64_t microBatch) {
  int64_t firstRow = microBatch * microRows;
  for (const BatchInput &input : inputs)
    sampler.fillTraining(input.part, position + firstRow, input.slice, executor.integers(*input.tensor));
  if (!executor.hasTensor("key"))
    return;
  std::span<int32_t> key = executor.integers("key");
  key[0] = static_cast<int32_t>(training.seed());
  key[1] = static_cast<int32_t>(step);
  key[2] = static_cast<int32_t>(firstRow);
  key[3] = 0;
}

void StepRunner::fillUpdate(int64_t step, double rate) {
  setScalar("learning_rate", rate);
  setScalar("bias_correction1", 1 - std::pow(training.beta1(), static_cast<double>(step + 1)));
  setScalar("bias_correction2", 1 - std::pow(training.beta2(), static_cast<double>(step + 1)));
}

bool StepRunner::isFinite() const {
  return std::isfinite(executor.scalar("loss_sum")) &&
         (!executor.hasTensor("grad_norm") || std::isfinite(executor.scalar("grad_norm")));
}

StepResult StepRunner::train(int64_t step, int64_t position) {
  using Clock = std::chrono::steady_clock;
  StepResult result;
  for (const abi::TimetableEntry &entry : microBatches) {
    auto begin = Clock::now();
    fillMicroBatch(step, position, entry.micro_batch());
    result.dataSeconds += std::chrono::duration<double>(Clock::now() - begin).count();
    executor.run(entry.list());
  }
  executor.run("reduce");
  // Both are global values: all ranks decide alike.
  if (!isFinite())
    blameNonFinite(step, position);
  double tokens = executor.scalar("token_count");
  if (!(tokens > 0))
    throw Error(ExitCode::BadInput, executor.rank() != 0
                                        ? ""
                                        : fmt::format("step {}: its batch has {} tokens that count", step + 1, tokens));
  result.loss = static_cast<double>(executor.scalar("loss_sum")) / tokens;
  if (executor.hasTensor("grad_norm"))
    result.gradientNorm = executor.scalar("grad_norm");
  result.learningRate = learningRate(training, step);
  fillUpdate(step, result.learningRate);
  executor.run("update");
  return result;
}

/// Repeats the step's work up to the reductions, watching every kernel; state is as it was before the step.
void StepRunner::blameNonFinite(int64_t step, int64_t position) {
  constexpr int64_t Nothing = std::numeric_limits<int64_t>::max();
  std::optional<NonFinite> finding;
  int64_t when = Nothing; // micro-batch and command: earlier is nearer to the cause
  for (size_t i = 0; i < microBatches.size(); ++i) {
    fillMicroBatch(step, position, microBatches[i].micro_batch());
    std::optional<NonFinite> found = executor.runChecked(microBatches[i].list());
    if (found && !finding) {
      finding = found;
      when = static_cast<int64_t>(i) << 32 | found->command;
    }
  }
  std::vector<int64_t> all = executor.communicator().exchange(when);
  auto first = std::min_element(all.begin(), all.end());
  if (*first == Nothing)
    blameGradients(step);
  if (first - all.begin() != executor.rank())
    throw Error(ExitCode::NonFinite, "");
  throw Error(
      ExitCode::NonFinite,
      fmt::format("step {}: {} appears in layer '{}' on rank {} (kernel {}, micro-batch {}, element {} of output "
                  "{}); stopped before the update. Lower the learning rate, or look at the weights",
                  step + 1, finding->value, finding->location, executor.rank(), finding->kernel, when >> 32,
                  finding->element, finding->output));
}

/// No kernel of the micro-batches made it: the reductions did, by overflow.
void StepRunner::blameGradients(int64_t step) const {
  if (executor.rank() != 0)
    throw Error(ExitCode::NonFinite, "");
  std::string where;
  if (executor.hasTensor("grad_square_sums")) {
    std::span<float> sums = executor.floats("grad_square_sums");
    for (int i = 0; i < executor.manifest().parameters_size() && where.empty(); ++i)
      if (!std::isfinite(sums[i]))
        where = fmt::format("; the first gradient concerned is that of '{}'", executor.manifest().parameters(i).name());
  }
  throw Error(ExitCode::NonFinite,
              fmt::format("step {}: the sum over ranks and micro-batches is not finite (loss {}){}; stopped before the "
                          "update. Lower the learning rate",
                          step + 1, executor.scalar("loss_sum"), where));
}

double StepRunner::evaluate() {
  int64_t samples = sampler.validationSamples();
  if (training.eval_batches() > 0)
    samples = std::min(samples, training.eval_batches() * training.global_batch());
  double loss = 0, tokens = 0;
  for (int64_t position = 0; position < samples; position += microRows) {
    for (const BatchInput &input : inputs)
      sampler.fillValidation(input.part, position, input.slice, executor.integers(*input.tensor));
    executor.run("eval");
    loss += executor.scalar("eval_loss_sum");
    tokens += executor.scalar("eval_token_count");
  }
  if (!(tokens > 0))
    throw Error(ExitCode::BadInput, executor.rank() != 0
                                        ? ""
                                        : "the held-out samples have no token that counts; their loss mask leaves out "
                                          "all, so evaluate on more of them (eval_batches) or on other data");
  return loss / tokens;
}

} // namespace dtc
