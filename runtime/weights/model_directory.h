// What a Hugging Face model directory says besides the values of its tensors, and whether it fits a program. The
// compiler checks this when it finds weights next to a config.json, every program when it starts from weights.
#pragma once

#include "runtime/weights/safetensors.h"

#include <nlohmann/json.hpp>

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

/// A config.json: its original text, and its parsed contents.
struct ModelConfig {
  /// Reads a file. Throws Error (BadInput) where it is missing, no regular file, larger than a megabyte, nested deeper
  /// than jsonNestingLimit, or not a JSON object.
  static ModelConfig read(const std::string &path);
  /// Likewise for a text in memory; `path` names it in messages.
  static ModelConfig parse(std::string text, const std::string &path);

  std::string text;
  nlohmann::json root;
};

/// Keys that Hugging Face writes into every config.json and that change nothing in training.
std::span<const std::string_view> harmlessConfigKeys();

/// Values by the keys of a config.json.
using ConfigValues = std::map<std::string, nlohmann::json, std::less<>>;

/// What a program carries of the model that it was compiled from.
struct ProgramConfig {
  std::string text;     ///< its config.json; empty: the model was given as text
  std::string defaults; ///< its family's defaults for keys missing in config.json: a JSON object; empty: none
  static ProgramConfig of(const abi::Manifest &manifest);
};

/// Throws Error (BadInput) naming the first key that makes the model of `directory` compute something different from
/// the program's with equal weights: another family, activation, rotary base, epsilon. Absent keys have the family's
/// defaults. Dropout, the scheme of initialisation and harmless keys may differ. A model that was given as text is not
/// compared.
void requireSameModel(const ProgramConfig &program, const std::string &directory);

/// A parameter's name, and the others under which files may hold it a second time.
struct ParameterNames {
  std::string name;
  std::vector<std::string> tied = {};
};

/// Throws Error (BadInput) for the first tensor that a model of these parameters does not have. It skips buffers that
/// some writers store (causal masks, rotary frequencies), and tensors under another name of a parameter if they have
/// the parameter's values. `where` names the weights in messages.
void requireKnownTensors(const SafetensorsModel &weights, std::span<const ParameterNames> parameters,
                         const std::string &where);

/// Whether `directory` has weights that can be read. Throws Error (BadInput) naming the file and what to do if it has
/// weights only of another kind or under another name: they would be ignored, and training would start from random
/// weights.
bool hasWeights(const std::string &directory);

/// The weights of `directory` for a program, after all of the checks above.
SafetensorsModel openWeights(const std::string &directory, const ProgramConfig &program,
                             std::span<const ParameterNames> parameters);

} // namespace dtc
