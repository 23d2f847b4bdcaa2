// Writes checkpoints while training continues.
//
// begin() starts a thread that copies the state. Call awaitCopy() before changing the state. The thread then writes
// from the copy while training continues. Ranks must agree before they enter the next phase (all have written; all have
// hashed the files; rank 0 has published), but the thread cannot use the communicator. So each rank puts its progress
// into the one number that ranks exchange after each step anyway, and reads all ranks' numbers. A checkpoint is
// published at the earliest three steps after begin(), or when finish() waits for it.
#pragma once

#include "runtime/checkpoint/checkpoint_writer.h"
#include "runtime/checkpoint/step_news.h"
#include "runtime/comm/communicator.h"
#include "runtime/support/not_copied.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace dtc {

class Checkpointer : NotCopied {
public:
  struct Options {
    int64_t keep = 0; ///< how many checkpoints to keep, up to the one just written; 0: all
    FileBounds bounds = {};
    std::function<void(const std::string &)> warn = {}; ///< receives warnings about this rank
    /// Called on rank 0 by the writing thread as soon as a step's checkpoint is published, while this object lives.
    std::function<void(int64_t step)> onPublished = {};
  };
  /// All arguments outlive it. Collective, like begin(), beginInPlace(), take() and finish().
  Checkpointer(const RankState &state, Communicator &communicator, std::string root, Options options);
  /// Cancels a checkpoint in progress; rank 0 removes its files.
  ~Checkpointer();

  /// Allocates memory for begin() in the background.
  void prepare();
  /// Begins ROOT/step-N with the current state. No other checkpoint may be in progress. If the state cannot be read
  /// while the device works, it has been copied on return; if there is no memory for a copy, it has been written on
  /// return.
  void begin(const TrainerState &trainer);
  /// Likewise without a copy: returns when this rank's part is written.
  void beginInPlace(const TrainerState &trainer);
  /// Whether the state is being read: it must not change before awaitCopy() has returned.
  bool isCopying() const;
  void awaitCopy();

  /// This rank's progress with the checkpoint; the `signal` field is set elsewhere.
  StepNews news() const;
  /// Starts the next phase if all ranks are ready; `all` holds their news in rank order. Returns the path of a
  /// checkpoint that has just been published. If a rank failed, throws its Error on that rank and one without a message
  /// on the others; the checkpoint is then removed and earlier ones are unchanged.
  std::optional<std::string> take(std::span<const StepNews> all);
  /// Waits for the checkpoint in progress and returns its path; nullopt if there is none.
  std::optional<std::string> finish();

private:
  struct Job;
  void start(const TrainerState &trainer, bool aside);
  void runPhase(std::function<void(Job &)> work);
  void makeCopy();
  [[noreturn]] void fail(std::span<const StepNews> all);

  const RankState &state;
  Communicator &communicator;
  std::string root, attempt;
  Options options;
  std::shared_ptr<const FilePlan> plan;
  std::shared_ptr<StateCopy> copy; // created when first needed
  std::thread preparing;           // allocates its memory
  bool madeRoot = false, lacksMemory = false;
  std::shared_ptr<Job> job; // the checkpoint in progress
};

} // namespace dtc
