// Checkpoints that are written while training goes on.
//
// begin() has the state copied aside by a thread of its own; who is about to change the state calls awaitCopy() before.
// From the copy the thread writes, while training goes on. Ranks must agree before they go on to the next phase (all
// have written; all have hashed what lies in the files; rank 0 has published), but that thread cannot use the
// communicator. So each rank puts what it has done into the one number that ranks exchange after each step anyway, and
// takes all ranks' numbers back: a checkpoint is published three steps after it was begun at the earliest, or when
// somebody waits for it.
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
    int64_t keep = 0; ///< checkpoints up to the one just written; 0: all
    FileBounds bounds = {};
    std::function<void(const std::string &)> warn = {}; ///< of what is not as it should be on this rank
    /// On rank 0, as soon as the checkpoint of a step is published: by the thread that writes, while this object lives.
    std::function<void(int64_t step)> onPublished = {};
  };
  /// All outlive it. Collective, as begin(), beginInPlace(), take() and finish() are.
  Checkpointer(const RankState &state, Communicator &communicator, std::string root, Options options);
  /// Ends what is under way, and on rank 0 removes what is there of it.
  ~Checkpointer();

  /// Has memory for begin() made ready beside other work.
  void prepare();
  /// Begins ROOT/step-N with the state as it is now. None is under way. Where the state cannot be read beside what the
  /// device does, it is copied on return; where there is no memory for a copy, it is written on return.
  void begin(const TrainerState &trainer);
  /// The same without a copy: returns when this rank's part is written.
  void beginInPlace(const TrainerState &trainer);
  /// Whether the state is being read: it must not change before awaitCopy() has returned.
  bool isCopying() const;
  void awaitCopy();

  /// What this rank has to tell of the checkpoint under way; its signal is not ours.
  StepNews news() const;
  /// Goes on where all ranks are ready, by their news in the order of ranks. Returns the path of a checkpoint that is
  /// published now. When a rank failed, throws its Error there and one without words on the others; the checkpoint is
  /// then gone, those before it as they were.
  std::optional<std::string> take(std::span<const StepNews> all);
  /// Waits for the checkpoint under way and returns its path; none without one.
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
  std::shared_ptr<StateCopy> copy; // made when it is first needed
  std::thread preparing;           // its memory
  bool madeRoot = false, lacksMemory = false;
  std::shared_ptr<Job> job; // the checkpoint under way
};

} // namespace dtc
