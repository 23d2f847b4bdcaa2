// What Gemma 2 and Gemma 3 have in common.
#include "frontends/huggingface/Gemma.h"

#include <cmath>

using namespace dtc;
using namespace dtc::huggingface;

std::optional<double> dtc::huggingface::readSoftCap(Config &config, std::string_view key) {
  if (config.isNull(key) || !config.has(key))
    return std::nullopt;
  double cap = config.number(key);
  if (!(cap > 0))
    config.fail(key, "must be greater than 0, is " + std::to_string(cap) + "; null is without a cap");
  return cap;
}

std::unique_ptr<Decoder> dtc::huggingface::readGemma(Config &config, const ModelOptions &options,
                                                     const std::function<bool(int64_t)> &usual) {
  auto gemma = std::make_unique<Decoder>(config, options, "hidden_activation");
  gemma->attentionNorms.after = "post_attention_layernorm";
  gemma->mlpNorms = {"pre_feedforward_layernorm", "post_feedforward_layernorm"};
  gemma->normsAddOne = gemma->scalesEmbedding = true;
  gemma->queryBias = gemma->outputBias = config.flag("attention_bias");
  double scalar = config.number("query_pre_attn_scalar");
  if (!(scalar > 0))
    config.fail("query_pre_attn_scalar", "must be greater than 0, is " + std::to_string(scalar));
  gemma->scoreScale = 1 / std::sqrt(scalar);
  gemma->logitCap = readSoftCap(config, "final_logit_softcapping");
  config.mustNotBeNull("head_dim");
  config.mustNotBeNull("num_key_value_heads");
  config.mustNotBeNull("sliding_window");
  gemma->window = config.window("sliding_window");
  gemma->readLayerTypes(config, usual);
  config.mustBeUnset("use_bidirectional_attention", "attention is over earlier positions");
  return gemma;
}

ConfigValues dtc::huggingface::gemmaDefaults(int64_t vocab, int64_t positions, const ConfigValues &own) {
  ConfigValues values = decoderDefaults({vocab, 9216, positions}, {{"hidden_size", 2304},
                                                                   {"num_hidden_layers", 26},
                                                                   {"num_attention_heads", 8},
                                                                   {"num_key_value_heads", 4},
                                                                   {"head_dim", 256},
                                                                   {"hidden_activation", "gelu_pytorch_tanh"},
                                                                   {"pad_token_id", 0},
                                                                   {"query_pre_attn_scalar", 256},
                                                                   {"sliding_window", 4096},
                                                                   {"tie_word_embeddings", true}});
  values.erase("hidden_act");
  return joinDefaults(std::move(values), own);
}
