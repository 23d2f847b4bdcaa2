// What a checkpoint holds besides tensors and checksums.
#pragma once

#include "runtime/checkpoint/file_plan.h"
#include "runtime/checkpoint/trainer_state.h"

#include <vector>

namespace dtc {

inline constexpr const char *ConfigFile = "config.json", *TrainerStateFile = "trainer_state.json";

/// The text of a config.json, changed to say that its weights are of this type. A config.json without a type means f32.
/// If the type is already right, the text is unchanged.
std::string configStoredAs(const std::string &text, abi::DataType type);

/// The model's config.json and its other files, the trainer's state, and the indexes of the tensor files. Throws Error
/// (BadInput) when the program carries a file that does not belong in this folder.
std::vector<TextFile> checkpointTexts(const abi::Manifest &manifest, const TrainerState &trainer, const FilePlan &plan);

} // namespace dtc
