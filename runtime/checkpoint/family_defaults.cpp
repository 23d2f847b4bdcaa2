// The defaults of each family, once for the compiler, which builds the model, and for programs, which compare weights.
#include "runtime/checkpoint/family_defaults.h"

namespace dtc {

/// What llama and the families of its kind have in common, and what of it is different.
static ConfigValues decoder(const ConfigValues &own) {
  ConfigValues values = {{"num_hidden_layers", 32}, {"num_attention_heads", 32}, {"hidden_size", 4096},
                         {"hidden_act", "silu"},    {"rms_norm_eps", 1e-6},      {"rope_theta", 10000},
                         {"attention_dropout", 0},  {"initializer_range", 0.02}, {"tie_word_embeddings", false},
                         {"attention_bias", false}, {"mlp_bias", false}};
  for (const auto &[key, value] : own)
    values[key] = value;
  return values;
}

const ConfigValues &familyDefaults(std::string_view family) {
  static const std::map<std::string, ConfigValues, std::less<>> families = {
      {"gpt2",
       {{"vocab_size", 50257},
        {"n_embd", 768},
        {"n_layer", 12},
        {"n_head", 12},
        {"n_positions", 1024},
        {"embd_pdrop", 0.1},
        {"attn_pdrop", 0.1},
        {"resid_pdrop", 0.1},
        {"layer_norm_epsilon", 1e-5},
        {"initializer_range", 0.02},
        {"activation_function", "gelu_new"},
        {"tie_word_embeddings", true},
        {"scale_attn_weights", true},
        {"scale_attn_by_inverse_layer_idx", false}}},
      {"llama", decoder({{"vocab_size", 32000}, {"intermediate_size", 11008}, {"max_position_embeddings", 2048}})},
      {"mistral", decoder({{"vocab_size", 32000},
                           {"intermediate_size", 14336},
                           {"num_key_value_heads", 8},
                           {"max_position_embeddings", 131072},
                           {"sliding_window", 4096}})},
      {"qwen2", decoder({{"vocab_size", 151936},
                         {"intermediate_size", 22016},
                         {"num_key_value_heads", 32},
                         {"max_position_embeddings", 32768},
                         {"use_sliding_window", false},
                         {"sliding_window", 4096}})}};
  static const ConfigValues none;
  auto found = families.find(family);
  return found == families.end() ? none : found->second;
}

const ConfigValues &familyDefaultsOf(const nlohmann::json &config) {
  auto type = config.find("model_type");
  return familyDefaults(type != config.end() && type->is_string() ? type->get<std::string>() : "");
}

} // namespace dtc
