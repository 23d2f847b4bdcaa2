// Checkpoints: a Hugging Face model directory, and beside the weights what training needs to go on.
//
//   ROOT/step-000100/model.safetensors      weights under the model's own names and shapes; of several files each is
//                                           named model-00001-of-00003.safetensors, and
//                                           model.safetensors.index.json tells which tensor is where
//                    config.json            the model's own, saying that weights are float32
//                    tokenizer.json, ...    the model's own, as the program carries them
//                    optimizer.safetensors  moments, shaped like their parameters (absent when there are none), cut
//                                           into files and listed likewise
//                    trainer_state.json     TrainerState
//                    checksums.txt          of all these, tensor by tensor (checksums.h)
//
// The files hold whole tensors, so a checkpoint can be loaded under any layout; each rank reads and writes its shard
// only (file_plan.h). A checkpoint appears whole or not at all: it is written into step-000100.ATTEMPT.tmp and renamed
// when it is safely on disk (checkpoint_writer.h). checkpointer.h writes while training goes on. Functions that take a
// communicator are collective over it.
#pragma once

#include "runtime/checkpoint/state.h"
#include "runtime/checkpoint/trainer_state.h"
#include "runtime/comm/communicator.h"

#include <cstdint>
#include <string>

namespace dtc {

/// Writes ROOT/step-N, replacing one of the same step, and returns its path. With `keep`, only so many of the newest up
/// to this one are left. Throws Error (NonFinite) when a value is NaN or infinite, and Error (Runtime) when the disk is
/// full or fails: existing checkpoints are then as before and the unfinished one is gone.
std::string saveCheckpoint(const RankState &state, Communicator &communicator, const std::string &root,
                           const TrainerState &trainer, int64_t keep = 0);

/// Tries whether checkpoints can be written to `root`, and leaves nothing there. Not collective. Throws Error (Runtime)
/// naming path and reason when not.
void tryCheckpoints(const std::string &root);

/// Fills parameters and moments. The files are taken as they are; `verified` says that verifyCheckpoint of integrity.h
/// has held them against their checksums. Throws Error (BadInput) when checkpoint and program do not fit each other,
/// when the folder's name tells another step than its trainer_state.json, and when ranks load different things: each
/// host may have files of its own.
TrainerState loadCheckpoint(const RankState &state, Communicator &communicator, const std::string &directory,
                            bool verified = false);

/// Fills the parameters from a model directory, or from a checkpoint, which is held against its checksums where
/// `verify` says so. Throws Error (BadInput) as loadCheckpoint and openWeights do.
void loadWeights(const RankState &state, Communicator &communicator, const std::string &directory, bool verify);

} // namespace dtc
