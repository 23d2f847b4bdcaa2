// OLMo 2: Walsh et al., arXiv:2501.00656. Llama with norms behind each block instead of before it, and norms of all
// queries and of all keys.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

static std::unique_ptr<Family> readOlmo2(Config &config, const ModelOptions &options) {
  auto olmo = std::make_unique<Decoder>(config, options);
  olmo->readRotary(config);
  olmo->attentionNorms = {"", "post_attention_layernorm"};
  olmo->mlpNorms = {"", "post_feedforward_layernorm"};
  olmo->headNorms = Decoder::HeadNorms::AllHeads;
  olmo->queryBias = olmo->outputBias = config.flag("attention_bias");
  config.mustNotBeNull("head_dim");
  config.checkAllUsed();
  return olmo;
}

FamilyDefinition dtc::huggingface::defineOlmo2() {
  return {"olmo2", "OLMo 2", "arXiv:2501.00656", readOlmo2,
          decoderDefaults({{"vocab_size", 50304},
                           {"intermediate_size", 11008},
                           {"max_position_embeddings", 2048},
                           {"pad_token_id", 1},
                           {"rms_norm_eps", 1e-5}})};
}
