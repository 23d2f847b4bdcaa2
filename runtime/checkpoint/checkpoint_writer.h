// One checkpoint's way to disk, as one rank goes it: in three phases, between which all ranks wait for each other
// (checkpointer.h). No communicator: each phase may run in any thread.
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

/// What a rank writes of the state, aside: as it lies in its memory, since training waits for this copy. Its memory is
/// kept from one checkpoint to the next: the system takes as long to give fresh memory as it takes to fill it.
class StateCopy {
public:
  /// Throws Error (Runtime) when there is no memory for it.
  explicit StateCopy(const FilePlan &plan);

  /// Has the system give the memory now, if it is there.
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
  /// `attempt` tells apart what different jobs write for the same step, and is the same on all ranks. Checkpoints up to
  /// this one but the `keep` newest are removed; 0: none.
  struct Options {
    std::string root, attempt;
    int64_t step = 0, keep = 0;
    bool makesRoot = false; ///< the folder of all checkpoints may not be there yet
  };
  CheckpointWriter(std::shared_ptr<const FilePlan> plan, Options options);

  /// What rank 0 writes beside the tensors. Before the first phase.
  void setTexts(std::vector<TextFile> all) { texts = std::move(all); }

  /// First phase: this rank's part of each file, safely on disk. From a copy, or piece by piece from the state itself.
  /// All throw Error (Runtime) naming path and reason, these two Error (NonFinite) as RankState::pack also.
  void write(const StateCopy &copy) const;
  void write(const RankState &state) const;
  /// Second, when all have written: checksums of some of the tensors as they lie in the files, left for rank 0.
  void hash() const;
  /// Third, on rank 0, when all have hashed: gives the checkpoint its name and removes old ones.
  void publish() const;

  /// Phases under way end soon with an Error; from any thread.
  void cancel() { cancelled = true; }
  /// What is there of it, and of others that were never finished. When no rank writes any more.
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
