#include "runtime/checkpoint/checkpointer.h"

#include "runtime/checkpoint/checkpoint_texts.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>

namespace dtc {

enum Phase { Nothing, Written, Hashed, Published };

/// A checkpoint in progress. Its thread shares it, and may outlive the Checkpointer while it is stuck in a system call.
struct Checkpointer::Job {
  Job(std::shared_ptr<const FilePlan> plan, CheckpointWriter::Options options)
      : step(options.step), writer(std::move(plan), std::move(options)) {}

  int64_t step;
  CheckpointWriter writer;
  std::thread thread;

  mutable std::mutex mutex;
  std::condition_variable changed;
  bool aside = false;  // phases run in their own thread
  int begun = Nothing; // phases
  // Under the mutex:
  bool busy = false;   // a phase is running
  bool copied = false; // the state is no longer read
  int phases = Nothing;
  int failure = 0; // exit code of the problem
  std::exception_ptr problem;
  std::function<void(int64_t)> onPublished;

  template <typename Ready> void await(Ready ready) {
    std::unique_lock lock(mutex);
    changed.wait(lock, ready);
  }
  void setCopied() {
    std::lock_guard lock(mutex);
    copied = true;
    changed.notify_all();
  }
  /// Waits until no work is running.
  void join() {
    if (thread.joinable())
      thread.join();
  }
  void run(const std::function<void(Job &)> &work);
  void fail(const Error &error);
};

/// Records the message for the user: the step, and that nothing else is lost.
void Checkpointer::Job::fail(const Error &error) {
  bool isNonFinite = error.exitCode() == ExitCode::NonFinite;
  std::string words =
      isNonFinite
          ? fmt::format("after step {}: {}; no checkpoint was written, those before it are as they were. Lower the "
                        "learning rate",
                        step, error.what())
          : fmt::format("the checkpoint after step {}: {}; checkpoints before it are as they were", step, error.what());
  std::lock_guard lock(mutex);
  problem = std::make_exception_ptr(Error(error.exitCode(), words));
  failure = static_cast<int>(error.exitCode());
}

void Checkpointer::Job::run(const std::function<void(Job &)> &work) {
  try {
    work(*this);
  } catch (const Error &error) {
    // Failing to read back what was just written is not the user's fault.
    bool isRead = begun != Written && error.exitCode() == ExitCode::BadInput;
    fail(isRead ? Error(error.what()) : error);
  } catch (const std::exception &error) {
    fail(Error(error.what()));
  }
  std::lock_guard lock(mutex);
  phases += failure == 0;
  if (phases == Published && onPublished)
    onPublished(step);
  busy = false;
  copied = true;
  changed.notify_all();
}

/// Ranks of a killed job may go on writing for a while, but never into the files of the next job.
static std::string agreeOnAttempt(Communicator &communicator) {
  std::random_device device;
  auto mine = static_cast<int64_t>(uint64_t(device()) << 32 | device());
  return fmt::format("{:016x}", static_cast<uint64_t>(communicator.exchange(mine).front()));
}

Checkpointer::Checkpointer(const RankState &state, Communicator &communicator, std::string root, Options options)
    : state(state), communicator(communicator), root(std::move(root)), attempt(agreeOnAttempt(communicator)),
      options(std::move(options)), plan(std::make_shared<FilePlan>(state, this->options.bounds)) {}

/// A rank that ends because it lost a peer must not wait for a disk. Work that cannot be stopped is left to the system,
/// and its files to the next run.
Checkpointer::~Checkpointer() {
  if (preparing.joinable())
    preparing.join();
  if (!job)
    return;
  job->writer.cancel();
  awaitCopy();
  bool isOver, isPublished;
  {
    std::unique_lock lock(job->mutex);
    isOver = job->changed.wait_for(lock, std::chrono::seconds(2), [&] { return !job->busy; });
    isPublished = job->phases == Published;
    job->onPublished = nullptr;
  }
  if (!isOver)
    job->thread.detach();
  else
    job->join();
  if (isOver && !isPublished && communicator.rank() == 0)
    job->writer.remove();
}

//===----------------------------------------------------------------------===//
// Beginning
//===----------------------------------------------------------------------===//

void Checkpointer::start(const TrainerState &trainer, bool aside) {
  job = std::make_shared<Job>(plan, CheckpointWriter::Options{root, attempt, trainer.step, options.keep, !madeRoot});
  job->aside = aside;
  job->onPublished = options.onPublished;
  madeRoot = true;
}

void Checkpointer::makeCopy() {
  if (!copy && !lacksMemory)
    try {
      copy = std::make_shared<StateCopy>(*plan);
    } catch (const Error &error) {
      lacksMemory = true;
      if (options.warn)
        options.warn(fmt::format("{}: training waits while checkpoints are written", error.what()));
    }
}

void Checkpointer::prepare() {
  makeCopy();
  if (copy && !preparing.joinable())
    try {
      preparing = std::thread([copy = copy] { copy->populate(); });
    } catch (const std::system_error &) { // then the memory is allocated on first use
    }
}

void Checkpointer::begin(const TrainerState &trainer) {
  makeCopy();
  if (preparing.joinable())
    preparing.join();
  if (lacksMemory)
    return beginInPlace(trainer);
  start(trainer, /*aside=*/true);
  std::exception_ptr problem;
  if (!state.readsAside())
    try {
      copy->take(state, *plan);
    } catch (const Error &) {
      problem = std::current_exception();
    }
  runPhase([this, copy = copy, trainer, problem](Job &job) {
    if (problem)
      std::rethrow_exception(problem);
    if (state.readsAside())
      copy->take(state, *plan);
    if (plan->rank == 0)
      job.writer.setTexts(checkpointTexts(state.manifest(), trainer, *plan));
    job.setCopied(); // from here on the state is no longer needed
    job.writer.write(*copy);
  });
}

void Checkpointer::beginInPlace(const TrainerState &trainer) {
  start(trainer, /*aside=*/false);
  runPhase([&](Job &job) {
    if (plan->rank == 0)
      job.writer.setTexts(checkpointTexts(state.manifest(), trainer, *plan));
    job.writer.write(state);
  });
}

bool Checkpointer::isCopying() const {
  if (!job)
    return false;
  std::lock_guard lock(job->mutex);
  return !job->copied;
}

void Checkpointer::awaitCopy() {
  if (job)
    job->await([&] { return job->copied; });
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

void Checkpointer::runPhase(std::function<void(Job &)> work) {
  job->join();
  job->busy = true;
  job->copied = ++job->begun != Written;
  if (!job->aside)
    return job->run(work);
  try {
    job->thread = std::thread([shared = job, work] { shared->run(work); });
  } catch (const std::system_error &) { // too many threads, or no address space for another
    job->run(work);
  }
}

StepNews Checkpointer::news() const {
  if (!job)
    return {};
  std::lock_guard lock(job->mutex);
  return {.phases = job->phases, .failure = job->failure};
}

std::optional<std::string> Checkpointer::take(std::span<const StepNews> all) {
  if (!job)
    return std::nullopt;
  if (std::ranges::any_of(all, [](const StepNews &news) { return news.failure != 0; }))
    fail(all);
  if (all.front().phases == Published) {
    job->join();
    return std::exchange(job, nullptr)->writer.finalPath().string();
  }
  if (job->begun == Published || std::ranges::min(all, {}, &StepNews::phases).phases < job->begun)
    return std::nullopt;
  if (job->begun == Written)
    runPhase([](Job &job) { job.writer.hash(); });
  else if (plan->rank == 0)
    runPhase([](Job &job) { job.writer.publish(); });
  else
    job->begun = Published;
  return std::nullopt;
}

std::optional<std::string> Checkpointer::finish() {
  while (job) {
    job->await([&] { return !job->busy; });
    std::vector<StepNews> all;
    for (int64_t packed : communicator.exchange(news().pack()))
      all.push_back(StepNews::unpack(packed));
    if (std::optional<std::string> path = take(all))
      return path;
  }
  return std::nullopt;
}

/// All ranks come here together. When none writes any more, the files are removed.
void Checkpointer::fail(std::span<const StepNews> all) {
  job->writer.cancel();
  job->join();
  communicator.barrier();
  std::shared_ptr<Job> failed = std::exchange(job, nullptr);
  if (communicator.rank() == 0)
    failed->writer.remove();
  auto first = std::ranges::find_if(all, [](const StepNews &news) { return news.failure != 0; });
  if (first - all.begin() == communicator.rank())
    std::rethrow_exception(failed->problem);
  throw Error(static_cast<ExitCode>(first->failure), "");
}

} // namespace dtc
