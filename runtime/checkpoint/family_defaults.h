// What the families of models assume where a config.json is silent.
#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <string_view>

namespace dtc {

using ConfigValues = std::map<std::string, nlohmann::json, std::less<>>;

/// The values by key that the family's configuration class in transformers takes (version 5), as far as they decide
/// about the model; those that follow from other keys are not among them. Empty for a family that is not known.
const ConfigValues &familyDefaults(std::string_view family);

/// Those of the family that a config.json names in model_type.
const ConfigValues &familyDefaultsOf(const nlohmann::json &config);

} // namespace dtc
