// Training settings: one strict TOML file and assignments on the command line.
//
//   [training]     steps, global_batch, sequence_length, accumulation, seed
//   [optimizer]    optimizer, learning_rate, clip_norm, and the optimizers' own (runtime/abi/optimizers.h): beta1, ...
//   [schedule]     schedule, warmup_steps, minimum_learning_rate
//   [precision]    compute, gradients, loss_scale, loss_scale_window
//   [communication] bucket_bytes
//   [memory]       recompute
//   [model]        dropout
//   [evaluation]   eval_every, eval_batches
//   [checkpoint]   checkpoint_every, keep
//   [data]         validation_fraction
//
// The other keys are the fields of abi::Training (runtime/abi/manifest.proto), which says what each means.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <string>
#include <string_view>
#include <vector>

namespace dtc {

/// The default of every setting.
abi::Training defaultTraining();

/// Applies the defaults, then the file (an empty path: none), then the assignments "key=value" or "section.key=value"
/// in order. Throws Error: BadInput for the file, naming file, line and key, Usage for an assignment; for an unknown
/// name the message suggests the nearest, and for a value out of range it says what is allowed.
abi::Training readTraining(const std::string &path, const std::vector<std::string> &assignments);

/// Changes what can still be changed after compilation, by the same assignments. Throws Error: Usage for one that is
/// malformed or whose setting is compiled in, BadInput if the settings no longer fit together.
void changeTraining(abi::Training &training, const std::vector<std::string> &assignments);

/// Whether one of the assignments names the setting `key`, with or without its section.
bool assignsSetting(const std::vector<std::string> &assignments, std::string_view key);

/// A setting and its value as TOML, and JSON, write it.
struct SettingValue {
  std::string section, key, value;
};

/// The names of all settings, or only of those that can still be changed after compilation.
std::vector<std::string> settingKeys(bool open);

/// All settings that have a value: a dropout that is left to the model has none.
std::vector<SettingValue> listSettings(const abi::Training &training);

/// The settings as a TOML file that readTraining reads back.
std::string printTraining(const abi::Training &training);

} // namespace dtc
