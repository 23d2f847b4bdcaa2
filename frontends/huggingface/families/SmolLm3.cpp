// SmolLM3: Bakouch et al., "SmolLM3: smol, multilingual, long-context reasoner" (2025). Llama in which some layers have
// no positions (Yang et al., arXiv:2501.18795).
#include "frontends/huggingface/Decoder.h"
#include "runtime/weights/config_rules.h"

using namespace dtc;
using namespace dtc::huggingface;

/// no_rope_layers has a 1 for each layer that does rotate by positions; without it, all do except every n-th
/// (no_rope_layer_interval).
static void readRotaryLayers(Decoder &smol, Config &config) {
  int64_t interval = config.size("no_rope_layer_interval");
  const nlohmann::json *list = config.list("no_rope_layers");
  if (list && static_cast<int64_t>(list->size()) < smol.layers)
    config.fail("no_rope_layers", "has " + std::to_string(list->size()) + " entries for " +
                                      std::to_string(smol.layers) + " layers (num_hidden_layers)");
  for (int64_t layer = 0; layer < smol.layers; ++layer) {
    if (list && (*list)[layer] != 0 && (*list)[layer] != 1)
      config.fail("no_rope_layers", "has the entry " + (*list)[layer].dump() + "; they are 0 or 1");
    smol.hasRotary[layer] = list ? (*list)[layer] == 1 : config_rules::isNotEveryNth(layer, interval);
  }
}

static void readSmolLm3(Decoder &smol, Config &config) {
  readRotaryLayers(smol, config);
  config.mustNotBeNull("head_dim");
  smol.queryBias = smol.outputBias = config.flag("attention_bias");
  smol.mlpBias = config.flag("mlp_bias");
  if (config.flag("use_sliding_window"))
    smol.window = config.window("sliding_window");
  smol.readLayerTypes(config, [&](int64_t layer) { return !smol.hasRotary[layer]; });
  config.checkAllUsed({"sliding_window", "max_window_layers"}); // files may name what is not used
}

FamilyDefinition dtc::huggingface::defineSmolLm3() {
  return {"smollm3", "SmolLM3", "Bakouch et al. 2025", readDecoder<readSmolLm3>,
          decoderDefaults({128256, 11008, 32768}, {{"hidden_size", 2048},
                                                   {"num_hidden_layers", 36},
                                                   {"num_attention_heads", 16},
                                                   {"num_key_value_heads", 4},
                                                   {"pad_token_id", 128004},
                                                   {"rope_theta", 2000000},
                                                   {"use_sliding_window", false},
                                                   {"no_rope_layer_interval", 4},
                                                   {"tie_word_embeddings", true}})};
}
