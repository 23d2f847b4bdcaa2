// Training settings: one strict TOML file and assignments on the command line.
//
//   [training]                        steps, global_batch, sequence_length, accumulation, seed
//   [optimizer]                       optimizer, learning_rate, beta1, beta2, epsilon, weight_decay, momentum,
//   clip_norm [schedule]                        schedule, warmup_steps, minimum_learning_rate [model] dropout
//   [evaluation]                      eval_every, eval_batches
//   [checkpoint]                      checkpoint_every
//   [data]                            validation_fraction
//
// The keys are the fields of abi::Training (runtime/abi/manifest.proto), which says what each means.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <string>
#include <vector>

namespace dtc {

/// The value of every setting that nobody sets.
abi::Training defaultTraining();

/// The defaults, then the file (an empty path: none), then the assignments "key=value" or "section.key=value" in their
/// order. Throws Error: BadInput for the file, naming file, line and key, Usage for an assignment; an unknown name
/// suggests the nearest, and a value out of range says what is allowed.
abi::Training readTraining(const std::string &path, const std::vector<std::string> &assignments);

/// The settings as a TOML file that readTraining reads back.
std::string printTraining(const abi::Training &training);

} // namespace dtc
