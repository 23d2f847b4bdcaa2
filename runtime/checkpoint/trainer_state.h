// trainer_state.json: what training needs to continue besides tensors, and what it ran with.
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

/// Distinguishes one set of token files from another.
struct DataFingerprint {
  uint64_t bytes = 0; ///< of tokens and loss masks, without the files' headers
  uint64_t hash = 0;  ///< 64-bit XXH3 over all of a file of up to 64 MiB, and over blocks of a larger one

  bool operator==(const DataFingerprint &) const = default;
};

struct TrainerState {
  /// In version 2 the fingerprint covered all data, however large.
  static constexpr int FormatVersion = 3, OldestVersion = 2;
  int formatVersion = FormatVersion; ///< the version that was read
  int64_t step = 0;                  ///< steps done
  int64_t samples = 0;               ///< training samples used, over all epochs
  uint64_t seed = 0;
  int64_t sequenceLength = 0;                       ///< the definition of a sample depends on it
  DataFingerprint data = {};                        ///< of the training data
  std::optional<LossScale> lossScale = {};          ///< for programs that have one
  std::string program = {};                         ///< hash of the program, and its mesh
  std::map<std::string, std::string> settings = {}; ///< each key of the training file with its value as JSON
};

/// All settings in the form of TrainerState::settings.
std::map<std::string, std::string> settingsOf(const abi::Training &training);

std::string printTrainerState(const TrainerState &trainer, const std::string &model);

/// Throws Error (BadInput) naming `path`, field and value for anything that printTrainerState does not write.
TrainerState readTrainerState(const std::string &path);

/// A JSON object in a file of moderate size and depth. Throws Error (BadInput) naming `path` for anything else.
nlohmann::ordered_json readJsonObject(const std::string &path);

} // namespace dtc
