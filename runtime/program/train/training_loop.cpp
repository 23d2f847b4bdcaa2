#include "runtime/program/train/training_loop.h"

#include "runtime/program/start/interrupt.h"
#include "runtime/support/now.h"

#include <algorithm>

namespace dtc {

TrainingLoop::TrainingLoop(Executor &executor, const Sampler &sampler, const abi::Training &training,
                           TrainerState &done)
    : executor(executor), training(training), done(done),
      runner(executor, sampler, training, [this] { tell(&TrainingObserver::beforeStateChanges); }) {}

int TrainingLoop::run() {
  int code = 0;
  try {
    code = trainSteps();
  } catch (const Error &error) {
    tell(&TrainingObserver::failTraining, error);
    throw;
  }
  tell(&TrainingObserver::endRun);
  return code;
}

int TrainingLoop::trainSteps() {
  tell(&TrainingObserver::beginTraining, done);
  while (done.step < training.steps()) {
    trainStep();
    bool tookLong = false;
    for (TrainingObserver *observer : observers)
      tookLong |= observer->afterStep(done, runner.isUnderWay());
    if (tookLong)
      takeNews(exchangeNews(0));
    if (stop && !runner.isUnderWay()) {
      tell(&TrainingObserver::endTraining, done, stop);
      return 128 + stop;
    }
  }
  tell(&TrainingObserver::endTraining, done, 0);
  return 0;
}

void TrainingLoop::trainStep() {
  tell(&TrainingObserver::beginStep, done.step + 1);
  double computedBefore = executor.computeSeconds();
  ComputedStep step = computeStep();
  tell(&TrainingObserver::stepComputed, step);
  std::vector<StepNews> news = exchangeNews(executor.computeSeconds() - computedBefore);
  if (executor.rank() == 0)
    reportStep(step, news);
  takeNews(news);
}

ComputedStep TrainingLoop::computeStep() {
  ComputedStep step;
  step.number = done.step + 1;
  step.begin = now();
  if (runner.hasLossScale() && !done.lossScale)
    done.lossScale = LossScale{.value = training.loss_scale()};
  LossScale scale = done.lossScale.value_or(LossScale());
  step.scaleBefore = scale;
  step.result = runner.train(done.step, done.samples, scale, stepsToFollow());
  step.scaleAfter = scale;
  tell(&TrainingObserver::stepRan);
  if (done.lossScale)
    done.lossScale = scale;
  step.end = now();
  ++done.step;
  done.samples += training.global_batch();
  return step;
}

void TrainingLoop::reportStep(const ComputedStep &step, const std::vector<StepNews> &news) {
  StepMetrics line;
  tell(&TrainingObserver::addMetrics, line);
  tell(&TrainingObserver::reportStep, done, step, news, line);
}

/// How many steps come behind the next one before anything looks at the state; no more than can make a difference.
int64_t TrainingLoop::stepsToFollow() const {
  int64_t follow = 0;
  auto isLast = [&](int64_t step) {
    auto reads = [&](const TrainingObserver *observer) { return observer->readsState(step); };
    return step >= training.steps() || std::ranges::any_of(observers, reads);
  };
  while (!stop && follow < runner.stepsAhead() && !isLast(done.step + 1 + follow))
    ++follow;
  return follow;
}

/// Once per step: exchanges requests to stop, how long each rank computed, and observers' news.
std::vector<StepNews> TrainingLoop::exchangeNews(double computed) {
  StepNews news;
  tell(&TrainingObserver::addNews, news);
  news.signal = interruptRequested();
  news.computed = computed;
  std::vector<StepNews> all;
  for (int64_t packed : executor.communicator().exchange(news.pack()))
    all.push_back(StepNews::unpack(packed));
  return all;
}

void TrainingLoop::takeNews(const std::vector<StepNews> &news) {
  tell(&TrainingObserver::takeNews, news);
  if (int signal = std::ranges::max(news, {}, &StepNews::signal).signal)
    stop = signal;
}

} // namespace dtc
