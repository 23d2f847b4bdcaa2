// Checkpoints: a Hugging Face model directory that also holds what training needs to continue.
//
//   ROOT/step-000100/model.safetensors      weights under the model's own names and shapes; of several files each is
//                                           named model-00001-of-00003.safetensors, and
//                                           model.safetensors.index.json tells which tensor is where
//                    config.json            the model's own, saying that weights are float32
//                    tokenizer.json, ...    the model's own, as the program carries them
//                    optimizer.safetensors  moments, shaped like their parameters (absent when there are none), split
//                                           into files and indexed likewise
//                    trainer_state.json     TrainerState
//                    checksums.txt          of all the above, tensor by tensor (checksums.h)
//
// The files hold whole tensors, so a checkpoint can be loaded under any layout; each rank reads and writes only its
// shard (file_plan.h). A checkpoint appears complete or not at all: it is written into step-000100.ATTEMPT.tmp and
// renamed when it is safely on disk (checkpoint_writer.h). checkpointer.h writes checkpoints while training continues.
// Functions that take a communicator are collective over it.
#pragma once

#include "runtime/checkpoint/state.h"
#include "runtime/checkpoint/trainer_state.h"
#include "runtime/comm/communicator.h"

#include <cstdint>
#include <string>

namespace dtc {

/// Writes ROOT/step-N, replacing any checkpoint of the same step, and returns its path. With `keep`, only the newest
/// `keep` checkpoints up to this one are kept. Throws Error (NonFinite) when a value is NaN or infinite, and Error
/// (Runtime) when the disk is full or fails: existing checkpoints are then unchanged and the unfinished one is removed.
std::string saveCheckpoint(const RankState &state, Communicator &communicator, const std::string &root,
                           const TrainerState &trainer, int64_t keep = 0);

/// Checks that checkpoints can be written to `root`, and leaves nothing there. Not collective. Throws Error (Runtime)
/// naming path and reason when not.
void tryCheckpoints(const std::string &root);

/// Fills parameters and moments. It does not check the files; `verified` says that verifyCheckpoint of integrity.h has
/// verified their checksums. Throws Error (BadInput) when the checkpoint does not fit the program, when the folder's
/// name and its trainer_state.json disagree on the step, and when ranks load different data: each host may have its own
/// files.
TrainerState loadCheckpoint(const RankState &state, Communicator &communicator, const std::string &directory,
                            bool verified = false);

/// Fills the parameters from a model directory or from a checkpoint, whose checksums are verified if `verify` is set.
/// Throws Error (BadInput) as loadCheckpoint and openWeights do.
void loadWeights(const RankState &state, Communicator &communicator, const std::string &directory, bool verify);

} // namespace dtc
