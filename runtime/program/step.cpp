#include "runtime/program/step.h"

#include "runtime/abi/error.h"
#include "runtime/program/schedule.h"
#include "runtime/program/state_writers.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace dtc {

StepRunner::StepRunner(Executor &executor, const Sampler &sampler, const abi::Training &training,
                       std::function<void()> beforeStateChanges)
    : executor(executor), sampler(sampler), training(training), beforeStateChanges(std::move(beforeStateChanges)),
      stateWriters(listsThatWriteState(executor.manifest(), executor.role())),
      inputs(batchInputsOf(executor.manifest(), executor.rank())) {
  if (inputs.size() != 2 || inputs[0].part == inputs[1].part)
    throw Error(ExitCode::BadInput, "damaged program: it does not have the inputs 'tokens' and 'targets' once each");
  const abi::Tensor &tokens = *inputs.front().tensor;
  if (tokens.global_shape(1) != training.sequence_length())
    throw Error(ExitCode::BadInput,
                fmt::format("damaged program: its inputs have {} columns, its sequence_length is {}",
                            tokens.global_shape(1), training.sequence_length()));
  microRows = tokens.global_shape(0);
  evaluationRows =
      microRows * std::ranges::count_if(executor.role().evaluation(), &abi::TimetableEntry::has_micro_batch);
}

std::string StepRunner::checkByReplay(int64_t every) {
  replay.emplace(executor, stateWriters, every);
  return replay->describe();
}

void StepRunner::run(const abi::TimetableEntry &entry) {
  if (beforeStateChanges && stateWriters.contains(entry.list()))
    beforeStateChanges();
  executor.run(entry.list(), entry.slot());
}

void StepRunner::setScalar(const char *name, double value) {
  if (executor.hasTensor(name))
    executor.setScalar(name, static_cast<float>(value));
}

template <typename Fill> void StepRunner::fillInput(const BatchInput &input, Fill fill) {
  staged.resize(static_cast<size_t>(input.slice.localRows * input.slice.localColumns));
  fill(std::span(staged));
  executor.write(*input.tensor, staged);
}

void StepRunner::fillMicroBatch(int64_t step, int64_t position, int64_t microBatch) {
  int64_t firstRow = microBatch * microRows;
  for (const BatchInput &input : inputs)
    fillInput(input, [&](std::span<int32_t> values) {
      sampler.fillTraining(input.part, position + firstRow, input.slice, values);
    });
  if (!executor.hasTensor("key"))
    return;
  std::array<int32_t, 4> key = {};
  key[0] = static_cast<int32_t>(training.seed());
  key[1] = static_cast<int32_t>(step);
  key[2] = static_cast<int32_t>(firstRow);
  executor.write(executor.tensor("key"), key);
}

void StepRunner::fillScalars(int64_t step, double rate, const LossScale &scale) {
  setScalar("learning_rate", rate);
  auto updates = static_cast<double>(step + 1 - scale.skipped); // this one included
  setScalar("bias_correction1", 1 - std::pow(training.beta1(), updates));
  setScalar("bias_correction2", 1 - std::pow(training.beta2(), updates));
  // The backward pass begins at the sum over tokens; the scale is the mean's, so that more tokens overflow no sooner.
  auto tokens = static_cast<double>(training.global_batch() * training.sequence_length());
  setScalar("loss_scale", scale.value / tokens);
}

bool StepRunner::isFinite() const {
  return std::isfinite(executor.scalar("loss_sum")) &&
         (!executor.hasTensor("grad_norm") || std::isfinite(executor.scalar("grad_norm")));
}

StepResult StepRunner::train(int64_t step, int64_t position, LossScale &scale) {
  using Clock = std::chrono::steady_clock;
  StepResult result;
  executor.beginStep(step + 1);
  result.learningRate = learningRate(training, step);
  fillScalars(step, result.learningRate, scale);
  auto fill = [&](const abi::TimetableEntry &entry) {
    auto begin = Clock::now();
    fillMicroBatch(step, position, entry.micro_batch());
    result.dataSeconds += std::chrono::duration<double>(Clock::now() - begin).count();
  };
  bool isReplayed = replay && replay->isDue(step + 1);
  if (isReplayed)
    replay->run(step + 1, fill);
  for (int i = isReplayed ? replay->entries() : 0; i < executor.role().step_size(); ++i) {
    const abi::TimetableEntry &entry = executor.role().step(i);
    if (entry.has_micro_batch())
      fill(entry);
    run(entry);
  }
  // These are global values: all ranks decide alike.
  double tokens = executor.scalar("token_count");
  result.applied = executor.scalar("update_applied") != 0;
  if (!result.applied) {
    if (isFinite() && !(tokens > 0))
      throw Error(ExitCode::BadInput,
                  executor.rank() != 0 ? ""
                                       : fmt::format("step {}: its batch has {} tokens that count", step + 1, tokens));
    // A loss that is not finite is none of the scale's doing.
    if (!hasLossScale() || !scale.canShrink() || !std::isfinite(executor.scalar("loss_sum")))
      blameNonFinite(step, position, scale);
  }
  if (hasLossScale())
    scale.update(result.applied, training.loss_scale_window());
  result.loss = static_cast<double>(executor.scalar("loss_sum")) / tokens;
  if (result.applied && executor.hasTensor("grad_norm"))
    result.gradientNorm = executor.scalar("grad_norm");
  return result;
}

/// Repeats what the step did with its micro-batches, watching every kernel; state is as it was before the step.
void StepRunner::blameNonFinite(int64_t step, int64_t position, const LossScale &scale) {
  constexpr int64_t Nothing = std::numeric_limits<int64_t>::max();
  std::optional<NonFinite> finding;
  int64_t when = Nothing; // entry and command: earlier is nearer to the cause
  int64_t entries = 0;
  for (const abi::TimetableEntry &entry : executor.role().step()) {
    ++entries;
    if (!entry.has_micro_batch())
      continue;
    fillMicroBatch(step, position, entry.micro_batch());
    std::optional<NonFinite> found = executor.runChecked(entry.list(), entry.slot());
    if (found && !finding) {
      finding = found;
      when = (entries - 1) << 32 | found->command;
    }
  }
  std::vector<int64_t> all = executor.communicator().exchange(when);
  auto first = std::min_element(all.begin(), all.end());
  if (*first == Nothing)
    blameGradients(describeStep(step, scale));
  if (first - all.begin() != executor.rank())
    throw Error(ExitCode::NonFinite, "");
  int64_t microBatch = executor.role().step(static_cast<int>(when >> 32)).micro_batch();
  throw Error(ExitCode::NonFinite,
              fmt::format("{}: {} appears in layer '{}' on rank {} (kernel {}, micro-batch {}, element {} of output "
                          "{}); stopped before the update. Lower the learning rate, or look at the weights",
                          describeStep(step, scale), finding->value, finding->location, executor.rank(),
                          finding->kernel, microBatch, finding->element, finding->output));
}

/// No kernel of the micro-batches made it: the reductions did, by overflow.
void StepRunner::blameGradients(const std::string &step) const {
  if (executor.rank() != 0)
    throw Error(ExitCode::NonFinite, "");
  std::string where;
  if (executor.hasTensor("grad_square_sums")) {
    std::vector<float> sums = executor.floats("grad_square_sums");
    for (int i = 0; i < executor.manifest().parameters_size() && where.empty(); ++i)
      if (!std::isfinite(sums[i]))
        where = fmt::format("; the first gradient concerned is that of '{}'", executor.manifest().parameters(i).name());
  }
  throw Error(ExitCode::NonFinite,
              fmt::format("{}: the sum over ranks and micro-batches is not finite (loss {}){}; stopped before the "
                          "update. Lower the learning rate",
                          step, executor.scalar("loss_sum"), where));
}

std::string StepRunner::describeStep(int64_t step, const LossScale &scale) const {
  bool atFloor = hasLossScale() && !scale.canShrink();
  return fmt::format("step {}{}", step + 1,
                     atFloor ? fmt::format(", at the smallest loss scale, {}", scale.value) : "");
}

void StepRunner::refresh() {
  for (const abi::TimetableEntry &entry : executor.role().refresh())
    run(entry);
}

double StepRunner::evaluate() {
  int64_t samples = sampler.validationSamples();
  if (training.eval_batches() > 0)
    samples = std::min(samples, training.eval_batches() * training.global_batch());
  double loss = 0, tokens = 0;
  for (int64_t position = 0; position < samples; position += evaluationRows) {
    for (const abi::TimetableEntry &entry : executor.role().evaluation()) {
      if (entry.has_micro_batch())
        for (const BatchInput &input : inputs)
          fillInput(input, [&](std::span<int32_t> values) {
            sampler.fillValidation(input.part, position + entry.micro_batch() * microRows, input.slice, values);
          });
      run(entry);
    }
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
