// Granite: Mishra et al., arXiv:2405.04324, and IBM's Granite 3 (2024). Llama with multipliers, as in maximal update
// parametrization: of embeddings, scores, what blocks add, and logits.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

static void readGranite(Decoder &granite, Config &config) {
  granite.queryBias = granite.outputBias = config.flag("attention_bias");
  granite.mlpBias = config.flag("mlp_bias");
  for (std::string_view key : {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"})
    config.mustNotBeNull(key);
  granite.embeddingFactor = config.number("embedding_multiplier");
  granite.scoreScale = config.number("attention_multiplier");
  granite.residualFactor = config.number("residual_multiplier");
  double scaling = config.number("logits_scaling");
  if (scaling == 0)
    config.fail("logits_scaling", "is 0, and logits cannot be divided by it");
  granite.logitFactor = 1 / scaling;
  config.mustNotBeNull("head_dim");
  config.checkAllUsed();
}

FamilyDefinition dtc::huggingface::defineGranite() {
  return {"granite", "Granite 3", "arXiv:2405.04324", readDecoder<readGranite>,
          decoderDefaults({32000, 11008, 2048}, {{"embedding_multiplier", 1},
                                                 {"attention_multiplier", 1},
                                                 {"residual_multiplier", 1},
                                                 {"logits_scaling", 1}})};
}
