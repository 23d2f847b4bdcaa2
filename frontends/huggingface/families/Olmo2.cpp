// OLMo 2: Walsh et al., arXiv:2501.00656. Llama with norms after each block instead of before it, and norms of all
// queries and of all keys.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

static void readOlmo2(Decoder &olmo, Config &config) {
  olmo.attentionNorms = {"", "post_attention_layernorm"};
  olmo.mlpNorms = {"", "post_feedforward_layernorm"};
  olmo.headNorms = Decoder::HeadNorms::AllHeads;
  olmo.queryBias = olmo.outputBias = config.flag("attention_bias");
  config.mustNotBeNull("head_dim");
  config.checkAllUsed();
}

FamilyDefinition dtc::huggingface::defineOlmo2() {
  return {"olmo2", "OLMo 2", "arXiv:2501.00656", readDecoder<readOlmo2>,
          decoderDefaults({50304, 11008, 2048}, {{"pad_token_id", 1}, {"rms_norm_eps", 1e-5}})};
}
