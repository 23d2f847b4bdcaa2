// Writes one rank's part of one checkpoint to disk, in three phases. All ranks wait for each other between phases
// (checkpointer.h). It uses no communicator, so each phase may run in any thread.
#pragma once

#include "runtime/checkpoint/file_plan.h"
#include "runtime/checkpoint/trainer_state.h"
#include "runtime/device/arena.h"
#include "runtime/support/output_file.h"

#include <atomic>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dtc {

/// A copy of the state that a rank writes, in the layout of the rank's memory because training waits for this copy. The
/// copy's memory is kept from one checkpoint to the next: allocating fresh memory takes the system as long as filling
/// it.
class StateCopy {
public:
  /// Throws Error (Runtime) when there is not enough memory.
  explicit StateCopy(const FilePlan &plan);

  /// Makes the system allocate the memory now, if it can.
  void populate();
  void take(const RankState &state, const FilePlan &plan);
  std::span<const float> values() const { return {data(), count}; }

private:
  float *data() const { return reinterpret_cast<float *>(memory.base()); }

  size_t count;
  Arena memory;
};

class CheckpointWriter {
public:
  /// `attempt` distinguishes what different jobs write for the same step; it is the same on all ranks. Of the
  /// checkpoints up to this one, all but the `keep` newest are removed; 0: none are removed.
  struct Options {
    std::string root, attempt;
    int64_t step = 0, keep = 0;
    bool makesRoot = false; ///< the folder of all checkpoints may not exist yet
  };
  CheckpointWriter(std::shared_ptr<const FilePlan> plan, Options options);

  /// Sets what rank 0 writes besides the tensors. Call it before the first phase.
  void setTexts(std::vector<TextFile> all) { texts = std::move(all); }

  /// First phase: writes this rank's part of each file safely to disk, from a copy or piece by piece from the state
  /// itself. All phases throw Error (Runtime) naming path and reason; these two also throw Error (NonFinite) like
  /// RankState::pack.
  void write(const StateCopy &copy) const;
  void write(const RankState &state) const;
  /// Second phase, when all ranks have written: computes checksums of some of the tensors in the files, and leaves them
  /// for rank 0.
  void hash() const;
  /// Third phase, on rank 0, when all ranks have hashed: gives the checkpoint its name and removes old ones.
  void publish() const;

  /// Makes running phases end soon with an Error. May be called from any thread.
  void cancel() { cancelled = true; }
  /// Removes what exists of this checkpoint and of others that were never finished. Call it when no rank writes any
  /// more.
  void remove() const noexcept;

  std::filesystem::path finalPath() const;

private:
  std::filesystem::path unfinishedPath() const;
  template <typename WriteTensor> void writeFiles(WriteTensor writeTensor) const;
  template <typename Pack>
  void writeParts(OutputFile &file, uint64_t offset, const StateTensor &tensor, std::vector<float> &buffer,
                  Pack pack) const;
  std::string hashesOf(int rank) const;
  void checkCancelled() const;

  std::shared_ptr<const FilePlan> plan;
  Options options;
  std::vector<TextFile> texts;
  std::atomic<bool> cancelled = false;
};

} // namespace dtc
