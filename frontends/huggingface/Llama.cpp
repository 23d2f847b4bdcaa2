// Llama: Touvron et al., arXiv:2302.13971 and 2307.09288; Grattafiori et al., arXiv:2407.21783. Biases are a variant
// that config.json asks for.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

std::unique_ptr<Family> dtc::huggingface::readLlama(Config &config, const ModelOptions &options) {
  auto llama = std::make_unique<Decoder>(config, options);
  llama->readRotary(config);
  llama->queryBias = llama->outputBias = config.flag("attention_bias");
  llama->mlpBias = config.flag("mlp_bias");
  config.mustBeUnset("sliding_window", "llama has no windows; attention is over all earlier positions");
  config.checkAllUsed();
  return llama;
}
