// What a config.json means if a key is absent and its value follows from other keys, and which names are synonyms. The
// compiler builds models by these rules, and programs compare models by them. Plain default values are stated by the
// families (FamilyDefinition in frontends/huggingface/Families.h); a program carries those of its own family.
#pragma once

#include <cstdint>
#include <string_view>

namespace dtc::config_rules {

/// n_inner of gpt2.
constexpr int64_t innerSize(int64_t embed) { return 4 * embed; }
/// num_key_value_heads: each query head has its own.
constexpr int64_t keyValueHeads(int64_t heads) { return heads; }
/// head_dim; `heads` is not 0.
constexpr int64_t headSize(int64_t hidden, int64_t heads) { return hidden / heads; }
/// All layers except every n-th: the layers with a window by sliding_window_pattern, and with rotary positions by
/// no_rope_layer_interval.
constexpr bool isNotEveryNth(int64_t layer, int64_t n) { return (layer + 1) % n != 0; }
/// The layers with a window by max_window_layers, which may be JSON.
template <typename First> constexpr bool isUpperLayer(int64_t layer, const First &first) { return first <= layer; }

/// A name of an activation in config.json, and the common name for all its synonyms.
struct ActivationName {
  std::string_view name, common;
};
inline constexpr ActivationName activationNames[] = {
    {"gelu_new", "gelu_new"}, {"gelu_pytorch_tanh", "gelu_new"}, {"gelu", "gelu"}, {"gelu_python", "gelu"},
    {"silu", "silu"},         {"swish", "silu"},                 {"tanh", "tanh"}};

/// Empty if the name is not known.
constexpr std::string_view commonActivation(std::string_view name) {
  for (const ActivationName &known : activationNames)
    if (known.name == name)
      return known.common;
  return "";
}

} // namespace dtc::config_rules
