#include "runtime/program/train/step.h"

#include "runtime/abi/optimizers.h"
#include "runtime/abi/outputs.h"
#include "runtime/abi/sources.h"
#include "runtime/abi/timetables.h"
#include "runtime/program/train/schedule.h"
#include "runtime/program/train/state_writers.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace dtc {

namespace output = abi::output;

static const abi::Timetable &stepOf(const Executor &executor) {
  return abi::timetableOf(executor.role(), abi::stepTimetable);
}

/// Whether any role reads it: all ranks must track it.
static bool readsLossScale(const abi::Manifest &manifest) {
  return std::ranges::any_of(manifest.roles(), [](const abi::Role &role) {
    return std::ranges::any_of(
        role.tensors(), [](const abi::Tensor &tensor) { return tensor.source().kind() == abi::Source::LOSS_SCALE; });
  });
}

StepRunner::StepRunner(Executor &executor, const Sampler &sampler, const abi::Training &training,
                       std::function<void()> beforeStateChanges)
    : executor(executor), sampler(sampler), training(training), beforeStateChanges(std::move(beforeStateChanges)),
      stateWriters(listsThatWriteState(executor.manifest(), executor.role())), inputs(executor),
      evaluator(executor, inputs), ahead(abi::stepsAhead(executor.manifest(), abi::stepTimetable)),
      redoes(abi::mayRedo(executor.role())), takesLossScale(readsLossScale(executor.manifest())),
      microRows(training.global_batch() / executor.manifest().training().accumulation()) {}

std::string StepRunner::checkByReplay(int64_t every) {
  replay.emplace(executor, stateWriters, every);
  return replay->describe();
}

void StepRunner::run(const abi::TimetableEntry &entry) {
  if (beforeStateChanges && stateWriters.contains(entry.list()))
    beforeStateChanges();
  executor.run(entry);
}

void StepRunner::fillKey(const abi::Tensor &tensor, uint32_t place, int64_t step, int64_t firstRow) {
  std::array<int32_t, 4> key = {};
  key[0] = static_cast<int32_t>(training.seed());
  key[1] = static_cast<int32_t>(step);
  key[2] = static_cast<int32_t>(firstRow);
  executor.write(tensor, key, place);
}

double StepRunner::scalarOf(const abi::Source &source, int64_t step, const Now &now) const {
  switch (source.kind()) {
  case abi::Source::LEARNING_RATE:
    return learningRate(training, step);
  case abi::Source::BIAS_CORRECTION: {
    auto updates = static_cast<double>(step + 1 - now.scale.skipped); // this one included
    return 1 - std::pow(abi::settingOf(training, source.setting()), updates);
  }
  // The backward pass begins at the sum over tokens; the scale is the mean's, so that more tokens overflow no sooner.
  case abi::Source::LOSS_SCALE:
    return now.scale.value / static_cast<double>(training.global_batch() * training.sequence_length());
  default:
    throw Error("an input of the source " + abi::describe(source) + " is no scalar");
  }
}

void StepRunner::fillForTraining(const abi::TimetableEntry &entry, const Now &now) {
  int64_t step = now.step + entry.step();
  inputs.fillMissing(entry, step, [&](const abi::Tensor &tensor, uint32_t place) {
    int64_t firstRow = entry.micro_batch() * microRows;
    if (const BatchInput *input = inputs.samplesOf(tensor))
      inputs.write(*input, place, [&](std::span<int32_t> values) {
        int64_t sample = now.position + entry.step() * training.global_batch() + firstRow;
        sampler.fillTraining(input->part, sample, input->slice, values);
      });
    else if (tensor.source().kind() == abi::Source::KEY)
      fillKey(tensor, place, step, firstRow);
    else {
      auto value = static_cast<float>(scalarOf(tensor.source(), step, now));
      executor.write(tensor, std::span(&value, 1), place);
    }
  });
}

bool StepRunner::isFinite() const {
  return std::isfinite(executor.scalar(output::lossSum.name)) &&
         (!executor.hasTensor(output::gradientNorm.name) || std::isfinite(executor.scalar(output::gradientNorm.name)));
}

/// What the running step of `now` runs of a timetable: entries for steps of the run that is under way. What one rank
/// sends in a running step, another may receive in the next one, so both work under the step that the entry is for.
void StepRunner::runEntries(const abi::Timetable &timetable, const Now &now, const Fill &fill, int from) {
  for (int i = from; i < timetable.period_size(); ++i) {
    const abi::TimetableEntry &entry = timetable.period(i);
    int64_t step = now.step + entry.step();
    if (step < first || step >= end)
      continue;
    executor.beginStep(step + 1);
    if (entry.turns().empty()) {
      fill(entry, now);
      run(entry);
      continue;
    }
    abi::TimetableEntry placed = abi::inStep(entry, step - first);
    fill(placed, now);
    run(placed);
  }
  executor.beginStep(now.step + 1);
}

/// Decides which steps are begun before this one ends. All ranks decide the same. A run that was to end soon ends
/// there: what it leaves out cannot be made up for.
void StepRunner::beginOrGoOn(const Now &now, int64_t follow, const Fill &fill) {
  if (underWay) {
    if (end == now.step + ahead && follow >= ahead)
      ++end;
    return;
  }
  inputs.forget();
  first = now.step;
  end = first + 1 + std::min(follow, ahead);
  for (int64_t before = ahead; before > 0; --before)
    runEntries(stepOf(executor), {now.step - before, now.position - before * training.global_batch(), now.scale}, fill);
}

StepResult StepRunner::train(int64_t step, int64_t position, LossScale &scale, int64_t follow) {
  using Clock = std::chrono::steady_clock;
  StepResult result;
  result.learningRate = learningRate(training, step);
  Now now{step, position, scale};
  auto fill = [&](const abi::TimetableEntry &entry, const Now &when) {
    auto begin = Clock::now();
    fillForTraining(entry, when);
    result.dataSeconds += std::chrono::duration<double>(Clock::now() - begin).count();
  };
  beginOrGoOn(now, follow, fill);
  executor.beginStep(step + 1);
  bool isReplayed = replay && replay->isDue(step + 1);
  if (isReplayed)
    replay->run(step + 1, [&](const abi::TimetableEntry &entry) { fill(entry, now); });
  runEntries(stepOf(executor), now, fill, isReplayed ? replay->entries() : 0);
  if (redoes && executor.scalar(output::updateHolds.name) == 0) // on all ranks alike
    runEntries(abi::timetableOf(executor.role(), abi::redoTimetable), now, fill);
  executor.beginStep(step + 1);
  underWay = end > step + 1;
  // These values are global, so all ranks decide the same.
  double tokens = executor.scalar(output::tokenCount.name);
  result.applied = executor.scalar(output::updateApplied.name) != 0;
  if (!result.applied) {
    if (isFinite() && !(tokens > 0))
      throw Error(ExitCode::BadInput,
                  executor.rank() != 0 ? ""
                                       : fmt::format("step {}: its batch has {} tokens that count", step + 1, tokens));
    // The scale is not to blame for a non-finite loss.
    if (!hasLossScale() || !scale.canShrink() || !std::isfinite(executor.scalar(output::lossSum.name)))
      blameNonFinite(now);
  }
  if (hasLossScale())
    scale.update(result.applied, training.loss_scale_window());
  result.loss = static_cast<double>(executor.scalar(output::lossSum.name)) / tokens;
  if (result.applied && executor.hasTensor(output::gradientNorm.name))
    result.gradientNorm = executor.scalar(output::gradientNorm.name);
  return result;
}

namespace {
/// When a command runs, as one number: what comes later on a micro-batch's way through the stages and back is larger.
/// On several ranks the smallest is nearest to the cause.
class Moment {
public:
  static constexpr int64_t Never = std::numeric_limits<int64_t>::max();

  static int64_t of(const abi::Manifest &manifest, const abi::TimetableEntry &entry, int64_t command) {
    auto list = std::ranges::find(manifest.lists(), entry.list(), [](const auto &each) { return each.name(); });
    bool isBack = list != manifest.lists().end() && list->duty() != abi::CommandList::FORWARD_PASS &&
                  list->duty() != abi::CommandList::BOTH_PASSES;
    int64_t stage = isBack ? manifest.stages_size() - 1 - entry.stage() : entry.stage();
    return (2 * entry.micro_batch() + isBack) << (StageBits + CommandBits) | stage << CommandBits |
           std::min(command, (int64_t(1) << CommandBits) - 1);
  }
  static int64_t microBatchOf(int64_t moment) { return moment >> (StageBits + CommandBits + 1); }

private:
  static constexpr int StageBits = 10, CommandBits = 24;
};
} // namespace

/// A later step has begun, so nothing can be repeated. Unless an update was undone, later steps may have changed the
/// state.
void StepRunner::blameOverlapping(const Now &now) const {
  if (executor.rank() != 0)
    throw Error(ExitCode::NonFinite, "");
  std::string norm = executor.hasTensor(output::gradientNorm.name)
                         ? fmt::format(", gradient norm {}", executor.scalar(output::gradientNorm.name))
                         : "";
  throw Error(
      ExitCode::NonFinite,
      redoes ? fmt::format(
                   "{}: not all is finite (loss {} over {} tokens{}); stopped without its update. Where steps "
                   "overlap, it is not looked for where this arose: compile without --overlap-steps to see. Resume "
                   "from the last checkpoint with a lower learning rate",
                   describeStep(now), executor.scalar(output::lossSum.name), executor.scalar(output::tokenCount.name),
                   norm)
             : fmt::format("{}: the loss is not finite ({} over {} tokens), and as steps overlap, later ones may "
                           "have changed the state by now, so that it is lost. Resume from the last checkpoint with a "
                           "lower learning rate",
                           describeStep(now), executor.scalar(output::lossSum.name),
                           executor.scalar(output::tokenCount.name)));
}

/// Repeats what the step did with its micro-batches, watching every kernel; state is as it was before the step. Where
/// steps overlap it is not.
void StepRunner::blameNonFinite(const Now &now) {
  std::optional<NonFinite> finding;
  int64_t when = Moment::Never;
  const abi::Timetable &timetable = stepOf(executor);
  if (ahead > 0)
    blameOverlapping(now);
  for (int i = 0; i < timetable.period_size(); ++i) {
    const abi::TimetableEntry &entry = timetable.period(i);
    if (!entry.has_micro_batch())
      continue;
    fillForTraining(entry, now);
    std::optional<NonFinite> found = executor.runChecked(entry);
    if (int64_t moment = found ? Moment::of(executor.manifest(), entry, found->command) : Moment::Never;
        moment < when) {
      finding = found;
      when = moment;
    }
  }
  std::vector<int64_t> all = executor.communicator().exchange(when);
  auto first = std::min_element(all.begin(), all.end());
  if (*first == Moment::Never)
    blameGradients(describeStep(now));
  if (first - all.begin() != executor.rank())
    throw Error(ExitCode::NonFinite, "");
  throw Error(ExitCode::NonFinite,
              fmt::format("{}: {} appears in layer '{}' on rank {} (kernel {}, micro-batch {}, element {} of output "
                          "{}); stopped before the update. Lower the learning rate, or look at the weights",
                          describeStep(now), finding->value, finding->location, executor.rank(), finding->kernel,
                          Moment::microBatchOf(when), finding->element, finding->output));
}

/// No kernel of the micro-batches made it: the reductions did, by overflow.
void StepRunner::blameGradients(const std::string &step) const {
  if (executor.rank() != 0)
    throw Error(ExitCode::NonFinite, "");
  std::string where;
  if (executor.hasTensor(output::gradientSquareSums.name)) {
    std::vector<float> sums = executor.floats(output::gradientSquareSums.name);
    for (int i = 0; i < executor.manifest().parameters_size() && where.empty(); ++i)
      if (!std::isfinite(sums[i]))
        where = fmt::format("; the first gradient concerned is that of '{}'", executor.manifest().parameters(i).name());
  }
  throw Error(ExitCode::NonFinite,
              fmt::format("{}: the sum over ranks and micro-batches is not finite (loss {}){}; stopped before the "
                          "update. Lower the learning rate",
                          step, executor.scalar(output::lossSum.name), where));
}

std::string StepRunner::describeStep(const Now &now) const {
  bool atFloor = hasLossScale() && !now.scale.canShrink();
  return fmt::format("step {}{}", now.step + 1,
                     atFloor ? fmt::format(", at the smallest loss scale, {}", now.scale.value) : "");
}

void StepRunner::refresh() {
  abi::forEachEntry(abi::timetableOf(executor.role(), abi::refreshTimetable),
                    [&](const abi::TimetableEntry &entry) { run(entry); });
}

double StepRunner::evaluate() {
  int64_t samples = sampler.validationSamples();
  if (training.eval_batches() > 0)
    samples = std::min(samples, training.eval_batches() * training.global_batch());
  LossSum sum;
  for (int64_t position = 0; position < samples; position += evaluator.rows())
    sum += evaluator.run([&](SamplePart part, int64_t firstRow, const BatchSlice &slice, std::span<int32_t> values) {
      sampler.fillValidation(part, position + firstRow, slice, values);
    });
  if (!(sum.tokens > 0))
    throw Error(ExitCode::BadInput, executor.rank() != 0
                                        ? ""
                                        : "the held-out samples have no token that counts; their loss mask leaves out "
                                          "all, so evaluate on more of them (eval_batches) or on other data");
  return sum.loss / sum.tokens;
}

} // namespace dtc
