// trainer_state.json: what training continues from apart from tensors, and what it was done with.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include "runtime/checkpoint/loss_scale.h"

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

/// What tells one set of token files from another.
struct DataFingerprint {
  uint64_t bytes = 0; ///< of tokens and loss masks, without the files' headers
  uint64_t hash = 0;  ///< XXH3 of 64 bits over all of a file of up to 64 MiB, and over blocks of a larger one

  bool operator==(const DataFingerprint &) const = default;
};

struct TrainerState {
  /// In version 2 the fingerprint of data was of all of them, however large.
  static constexpr int FormatVersion = 3, OldestVersion = 2;
  int formatVersion = FormatVersion; ///< in which it was read
  int64_t step = 0;                  ///< steps done
  int64_t samples = 0;               ///< training samples used, over all epochs
  uint64_t seed = 0;
  int64_t sequenceLength = 0;                       ///< what a sample is depends on it
  DataFingerprint data = {};                        ///< what was trained on
  std::optional<LossScale> lossScale = {};          ///< of programs that have one
  std::string program = {};                         ///< hash of the program, and its mesh
  std::map<std::string, std::string> settings = {}; ///< each key of the training file with its value as JSON
};

/// All settings in the form of TrainerState::settings.
std::map<std::string, std::string> settingsOf(const abi::Training &training);

std::string printTrainerState(const TrainerState &trainer, const std::string &model);

/// Throws Error (BadInput) naming `path`, field and value for what printTrainerState does not write.
TrainerState readTrainerState(const std::string &path);

/// A JSON object in a file of moderate size and depth. Throws Error (BadInput) naming `path` for anything else.
nlohmann::ordered_json readJsonObject(const std::string &path);

} // namespace dtc
