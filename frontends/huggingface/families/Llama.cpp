// Llama: Touvron et al., arXiv:2302.13971 and 2307.09288; Grattafiori et al., arXiv:2407.21783. Biases are a variant
// that config.json asks for.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

static void readLlama(Decoder &llama, Config &config) {
  llama.queryBias = llama.outputBias = config.flag("attention_bias");
  llama.mlpBias = config.flag("mlp_bias");
  config.mustBeUnset("sliding_window", "llama has no windows; attention is over all earlier positions");
  config.checkAllUsed();
}

FamilyDefinition dtc::huggingface::defineLlama() {
  return {"llama", "Llama 1 to 3.3", "arXiv:2302.13971, arXiv:2307.09288, arXiv:2407.21783", readDecoder<readLlama>,
          decoderDefaults({32000, 11008, 2048})};
}
