#include "runtime/program/train/checkpoint_policy.h"

#include "runtime/support/now.h"

#include <utility>

namespace dtc {

namespace {
/// Adds its lifetime to a sum.
class Waiting {
public:
  explicit Waiting(std::optional<double> &sum) : sum(sum) {}
  ~Waiting() { sum = sum.value_or(0) + static_cast<double>(now() - begin) / 1e9; }

private:
  std::optional<double> &sum;
  int64_t begin = now();
};
} // namespace

CheckpointPolicy::CheckpointPolicy(const Context &context, std::string root, int64_t lastCheckpoint)
    : context(context), checkpointer(context.state, context.communicator, std::move(root), checkpointOptions()),
      lastCheckpoint(lastCheckpoint) {}

/// A launcher that restarts ranks needs to know how far they got.
Checkpointer::Options CheckpointPolicy::checkpointOptions() {
  Whereabouts &here = context.communicator.whereabouts();
  return {.keep = context.training.keep(),
          .warn = [&report = context.report](const std::string &message) { report.warn(message); },
          .onPublished = [&here](int64_t step) { here.noteCheckpoint(step); }};
}

void CheckpointPolicy::notePublished(const std::optional<std::string> &path) {
  if (path)
    context.report.note("checkpoint: " + *path);
}

//===----------------------------------------------------------------------===//
// When one is written
//===----------------------------------------------------------------------===//

void CheckpointPolicy::beginTraining(const TrainerState &done) {
  int64_t every = context.training.checkpoint_every();
  if (every > 0 && done.step + every < context.training.steps())
    checkpointer.prepare();
}

bool CheckpointPolicy::readsState(int64_t step) const {
  int64_t every = context.training.checkpoint_every();
  return every > 0 && step % every == 0;
}

bool CheckpointPolicy::afterStep(const TrainerState &done, bool) {
  bool saves = readsState(done.step) && done.step < context.training.steps();
  if (saves)
    begin(done);
  return saves;
}

/// Starts writing while training continues; the previous checkpoint must be done by then.
void CheckpointPolicy::begin(const TrainerState &done) {
  context.replicas.compare(done.step);
  Waiting waiting(waitedSeconds);
  notePublished(checkpointer.finish());
  checkpointer.begin(done);
  lastCheckpoint = done.step;
}

/// The last one, for which nothing needs to be copied: training is over.
void CheckpointPolicy::endTraining(const TrainerState &done, int) {
  notePublished(checkpointer.finish());
  if (lastCheckpoint == done.step)
    return;
  context.replicas.compare(done.step);
  checkpointer.beginInPlace(done);
  lastCheckpoint = done.step;
  notePublished(checkpointer.finish());
}

/// If a step is not finite or copies of the state differ, all ranks find it, so the checkpoint in progress, of an
/// earlier step, can be completed.
void CheckpointPolicy::failTraining(const Error &error) {
  if (error.exitCode() != ExitCode::NonFinite && error.exitCode() != ExitCode::Corrupted)
    return;
  try {
    notePublished(checkpointer.finish());
  } catch (const PeerLostError &) {
    throw;
  } catch (const Error &another) {
    context.report.warn(another.what());
  }
}

//===----------------------------------------------------------------------===//
// The checkpoint in progress
//===----------------------------------------------------------------------===//

void CheckpointPolicy::beforeStateChanges() {
  if (!checkpointer.isCopying())
    return;
  Waiting waiting(waitedSeconds);
  checkpointer.awaitCopy();
}

void CheckpointPolicy::addNews(StepNews &news) {
  StepNews ours = checkpointer.news();
  news.phases = ours.phases;
  news.failure = ours.failure;
}

void CheckpointPolicy::takeNews(const std::vector<StepNews> &news) { notePublished(checkpointer.take(news)); }

void CheckpointPolicy::addMetrics(StepMetrics &line) {
  line.checkpointSeconds = std::exchange(waitedSeconds, std::nullopt);
}

} // namespace dtc
