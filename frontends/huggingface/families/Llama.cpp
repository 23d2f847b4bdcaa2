// Llama: Touvron et al., arXiv:2302.13971 and 2307.09288; Grattafiori et al., arXiv:2407.21783. Biases are a variant
// that config.json asks for.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

static std::unique_ptr<Family> readLlama(Config &config, const ModelOptions &options) {
  auto llama = std::make_unique<Decoder>(config, options);
  llama->readRotary(config);
  llama->queryBias = llama->outputBias = config.flag("attention_bias");
  llama->mlpBias = config.flag("mlp_bias");
  config.mustBeUnset("sliding_window", "llama has no windows; attention is over all earlier positions");
  config.checkAllUsed();
  return llama;
}

FamilyDefinition dtc::huggingface::defineLlama() {
  return {"llama", "Llama 1 to 3.3", "arXiv:2302.13971, arXiv:2307.09288, arXiv:2407.21783", readLlama,
          decoderDefaults({{"vocab_size", 32000}, {"intermediate_size", 11008}, {"max_position_embeddings", 2048}})};
}
