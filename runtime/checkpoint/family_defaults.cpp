// The defaults of each family, once for the compiler, which builds the model, and for programs, which compare weights.
#include "runtime/checkpoint/family_defaults.h"

namespace dtc {

static ConfigValues joined(ConfigValues values, const ConfigValues &own) {
  for (const auto &[key, value] : own)
    values[key] = value;
  return values;
}

/// What llama and the families of its kind have in common, and what of it is different.
static ConfigValues decoder(const ConfigValues &own) {
  ConfigValues values = {{"num_hidden_layers", 32}, {"num_attention_heads", 32}, {"hidden_size", 4096},
                         {"hidden_act", "silu"},    {"rms_norm_eps", 1e-6},      {"rope_theta", 10000},
                         {"attention_dropout", 0},  {"initializer_range", 0.02}, {"tie_word_embeddings", false},
                         {"attention_bias", false}, {"mlp_bias", false}};
  return joined(std::move(values), own);
}

static ConfigValues qwen(const ConfigValues &own) {
  return joined(decoder({{"vocab_size", 151936},
                         {"intermediate_size", 22016},
                         {"num_key_value_heads", 32},
                         {"max_position_embeddings", 32768},
                         {"use_sliding_window", false},
                         {"sliding_window", 4096},
                         {"max_window_layers", 28}}),
                own);
}

static ConfigValues gemma(const ConfigValues &own) {
  ConfigValues values = joined(decoder({{"hidden_size", 2304},
                                        {"intermediate_size", 9216},
                                        {"num_hidden_layers", 26},
                                        {"num_attention_heads", 8},
                                        {"num_key_value_heads", 4},
                                        {"head_dim", 256},
                                        {"hidden_activation", "gelu_pytorch_tanh"},
                                        {"pad_token_id", 0},
                                        {"query_pre_attn_scalar", 256},
                                        {"sliding_window", 4096},
                                        {"tie_word_embeddings", true}}),
                               own);
  values.erase("hidden_act");
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
      {"qwen2", qwen({})},
      {"qwen3", qwen({{"head_dim", 128}})},
      {"olmo2", decoder({{"vocab_size", 50304},
                         {"intermediate_size", 11008},
                         {"max_position_embeddings", 2048},
                         {"pad_token_id", 1},
                         {"rms_norm_eps", 1e-5}})},
      {"phi3", decoder({{"vocab_size", 32064},
                        {"hidden_size", 3072},
                        {"intermediate_size", 8192},
                        {"max_position_embeddings", 4096},
                        {"original_max_position_embeddings", 4096},
                        {"resid_pdrop", 0},
                        {"embd_pdrop", 0},
                        {"pad_token_id", 32000},
                        {"partial_rotary_factor", 1},
                        {"rms_norm_eps", 1e-5}})},
      {"smollm3", decoder({{"vocab_size", 128256},
                           {"hidden_size", 2048},
                           {"intermediate_size", 11008},
                           {"num_hidden_layers", 36},
                           {"num_attention_heads", 16},
                           {"num_key_value_heads", 4},
                           {"max_position_embeddings", 32768},
                           {"pad_token_id", 128004},
                           {"rope_theta", 2000000},
                           {"use_sliding_window", false},
                           {"no_rope_layer_interval", 4},
                           {"tie_word_embeddings", true}})},
      {"granite", decoder({{"vocab_size", 32000},
                           {"intermediate_size", 11008},
                           {"max_position_embeddings", 2048},
                           {"embedding_multiplier", 1},
                           {"attention_multiplier", 1},
                           {"residual_multiplier", 1},
                           {"logits_scaling", 1}})},
      {"gemma2", gemma({{"vocab_size", 256000},
                        {"max_position_embeddings", 8192},
                        {"attn_logit_softcapping", 50},
                        {"final_logit_softcapping", 30}})},
      {"gemma3_text", gemma({{"vocab_size", 262208},
                             {"max_position_embeddings", 131072},
                             {"rope_theta", 1000000},
                             {"rope_local_base_freq", 10000},
                             {"sliding_window_pattern", 6}})},
      {"gpt_neox",
       {{"vocab_size", 50432},
        {"hidden_size", 6144},
        {"num_hidden_layers", 44},
        {"num_attention_heads", 64},
        {"intermediate_size", 24576},
        {"max_position_embeddings", 2048},
        {"attention_dropout", 0},
        {"hidden_dropout", 0},
        {"classifier_dropout", 0.1},
        {"layer_norm_eps", 1e-5},
        {"initializer_range", 0.02},
        {"hidden_act", "gelu"},
        {"tie_word_embeddings", false},
        {"use_parallel_residual", true},
        {"attention_bias", true},
        {"rotary_emb_base", 10000},
        {"rotary_pct", 0.25}}}};
  static const ConfigValues none;
  auto found = families.find(family);
  return found == families.end() ? none : found->second;
}

const ConfigValues &familyDefaultsOf(const nlohmann::json &config) {
  auto type = config.find("model_type");
  return familyDefaults(type != config.end() && type->is_string() ? type->get<std::string>() : "");
}

} // namespace dtc
