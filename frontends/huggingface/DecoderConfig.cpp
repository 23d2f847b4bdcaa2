// Reads the keys that the families of Llama's kind share.
#include "frontends/huggingface/Decoder.h"

#include "runtime/weights/config_rules.h"

#include <algorithm>

using namespace dtc;
using namespace dtc::huggingface;

Decoder::Decoder(Config &config, const ModelOptions &options, std::string_view activationKey) {
  vocab = config.size("vocab_size");
  embed = config.size("hidden_size");
  layers = config.size("num_hidden_layers");
  mlp = config.size("intermediate_size");
  positions = config.size("max_position_embeddings");
  attentionDropout = options.dropout.value_or(config.probability("attention_dropout"));
  epsilon = config.nonNegative("rms_norm_eps");
  initializerRange = config.nonNegative("initializer_range");
  activation = config.activation(activationKey);
  tied = config.flag("tie_word_embeddings");
  hasWindow.assign(layers, false);
  hasRotary.assign(layers, true);
  readHeads(config);
  readPadding(config);
  config.mustBeUnset("gradient_checkpointing", "activations are not recomputed on request");
  config.mustBeUnset("rope_interleaved", "rotary positions turn the two halves of a head, not neighbours");
}

void Decoder::readHeads(Config &config) {
  int64_t heads = config.size("num_attention_heads");
  int64_t usual = config_rules::keyValueHeads(heads);
  kvHeads = config.isNull("num_key_value_heads") ? usual : config.size("num_key_value_heads", usual);
  if (heads % kvHeads != 0)
    config.fail("num_key_value_heads", "is " + std::to_string(kvHeads) + ", which does not divide the " +
                                           std::to_string(heads) + " query heads (num_attention_heads)");
  if (embed % heads != 0)
    config.fail("hidden_size", "is " + std::to_string(embed) + ", which is not a multiple of the " +
                                   std::to_string(heads) + " query heads (num_attention_heads)");
  group = heads / kvHeads;
  headDim = config.size("head_dim", std::max<int64_t>(config_rules::headSize(embed, heads), 1));
  if (headDim % 2 != 0)
    config.fail("head_dim", "is " + std::to_string(headDim) +
                                "; rotary positions need an even size (by default it is "
                                "hidden_size / num_attention_heads)");
}

/// The family's embedding is made with this padding_idx: the row starts as it is in the weights, and looking it up
/// gives it no gradient. Negative ids count from the vocabulary's end.
void Decoder::readPadding(Config &config) {
  const nlohmann::json *value = config.integer("pad_token_id");
  if (!value || config.isNull("pad_token_id"))
    return;
  bool inside = value->is_number_unsigned() ? value->get<uint64_t>() < static_cast<uint64_t>(vocab)
                                            : value->get<int64_t>() >= -vocab;
  if (!inside)
    config.fail("pad_token_id", "is " + value->dump() + ", which is no token of a vocabulary of " +
                                    std::to_string(vocab) + " (vocab_size)");
  padding = value->get<int64_t>();
  if (*padding < 0)
    *padding += vocab;
}

void Decoder::readRotary(Config &config, const RopeKeys &keys) {
  rope = readRope(config, positions, keys);
  rope.check(config, headDim, keys.share.empty() ? "head_dim" : keys.share);
}

void Decoder::readUpperWindows(Config &config) {
  const nlohmann::json *first = nullptr;
  if (config.flag("use_sliding_window")) {
    config.mustNotBeNull("max_window_layers");
    first = config.integer("max_window_layers");
    window = config.window("sliding_window");
  }
  readLayerTypes(config, [&](int64_t layer) { return config_rules::isUpperLayer(layer, *first); });
}

void Decoder::readLayerTypes(Config &config, const std::function<bool(int64_t)> &usual) {
  const nlohmann::json *types = config.list("layer_types");
  if (types && static_cast<int64_t>(types->size()) != layers)
    config.fail("layer_types", "has " + std::to_string(types->size()) + " entries for " + std::to_string(layers) +
                                   " layers (num_hidden_layers)");
  for (int64_t layer = 0; layer < layers; ++layer) {
    bool isWindowed = types ? (*types)[layer] == "sliding_attention" : window && usual(layer);
    if (types && ((isWindowed && !window) || (!isWindowed && (*types)[layer] != "full_attention")))
      config.fail("layer_types", "names " + (*types)[layer].dump() +
                                     "; supported are \"full_attention\" and, where a " +
                                     "window is used, \"sliding_attention\"");
    hasWindow[layer] = isWindowed;
  }
}

ConfigValues dtc::huggingface::decoderDefaults(const DefaultSizes &sizes, const ConfigValues &own) {
  return joinDefaults({{"vocab_size", sizes.vocab},
                       {"intermediate_size", sizes.mlp},
                       {"max_position_embeddings", sizes.positions},
                       {"num_hidden_layers", 32},
                       {"num_attention_heads", 32},
                       {"hidden_size", 4096},
                       {"hidden_act", "silu"},
                       {"rms_norm_eps", 1e-6},
                       {"rope_theta", 10000},
                       {"attention_dropout", 0},
                       {"initializer_range", 0.02},
                       {"tie_word_embeddings", false},
                       {"attention_bias", false},
                       {"mlp_bias", false}},
                      own);
}
