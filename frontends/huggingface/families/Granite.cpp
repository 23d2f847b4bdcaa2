// Granite: Mishra et al., arXiv:2405.04324, and IBM's Granite 3 (2024). Llama with multipliers, as in maximal update
// parametrization: of embeddings, scores, what blocks add, and logits.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

static std::unique_ptr<Family> readGranite(Config &config, const ModelOptions &options) {
  auto granite = std::make_unique<Decoder>(config, options);
  granite->readRotary(config);
  granite->queryBias = granite->outputBias = config.flag("attention_bias");
  granite->mlpBias = config.flag("mlp_bias");
  for (std::string_view key : {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"})
    config.mustNotBeNull(key);
  granite->embeddingFactor = config.number("embedding_multiplier");
  granite->scoreScale = config.number("attention_multiplier");
  granite->residualFactor = config.number("residual_multiplier");
  double scaling = config.number("logits_scaling");
  if (scaling == 0)
    config.fail("logits_scaling", "is 0, by which logits cannot be divided");
  granite->logitFactor = 1 / scaling;
  config.mustNotBeNull("head_dim");
  config.checkAllUsed();
  return granite;
}

FamilyDefinition dtc::huggingface::defineGranite() {
  return {"granite", "Granite 3", "arXiv:2405.04324", readGranite,
          decoderDefaults({{"vocab_size", 32000},
                           {"intermediate_size", 11008},
                           {"max_position_embeddings", 2048},
                           {"embedding_multiplier", 1},
                           {"attention_multiplier", 1},
                           {"residual_multiplier", 1},
                           {"logits_scaling", 1}})};
}
