// Checkpoints: a Hugging Face model directory, and beside the weights what training needs to go on.
//
//   ROOT/step-000100/model.safetensors      weights under the model's own names and shapes
//                    config.json            the model's own
//                    optimizer.safetensors  moments, shaped like their parameters (absent when there are none)
//                    trainer_state.json     TrainerState
//
// The files hold whole tensors, so a checkpoint can be loaded under any layout; each rank reads and writes its shard
// only. A checkpoint appears whole or not at all: it is written into step-000100.tmp, whose space is reserved before
// anything is written, and renamed when it is safely on disk. All functions are collective over the communicator.
#pragma once

#include "runtime/checkpoint/state.h"
#include "runtime/comm/communicator.h"

#include <cstdint>
#include <string>

namespace dtc {

/// What training continues from, apart from tensors.
struct TrainerState {
  static constexpr int FormatVersion = 1;
  int64_t step = 0;    ///< steps done
  int64_t samples = 0; ///< training samples used, over all epochs
  uint64_t seed = 0;
  int64_t sequenceLength = 0; ///< what a sample is depends on it
};

/// Writes ROOT/step-N, replacing one of the same step, and returns its path. Throws Error (Runtime) when the disk is
/// full or fails: existing checkpoints are then as before and the unfinished one is gone.
std::string saveCheckpoint(const RankState &state, Communicator &communicator, const std::string &root,
                           const TrainerState &trainer);

/// Fills parameters and moments. Throws Error (BadInput) when checkpoint and program do not fit each other.
TrainerState loadCheckpoint(const RankState &state, Communicator &communicator, const std::string &directory);

/// The checkpoint that `path` means: itself, or the one of the most steps in it or in its folder "checkpoints". Throws
/// Error (BadInput) when there is none.
std::string resolveCheckpoint(const std::string &path);

} // namespace dtc
