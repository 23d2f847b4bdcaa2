// Mistral: Jiang et al., arXiv:2310.06825. Llama with fewer key/value heads, and a window over earlier positions, which
// has to hold the sequence here.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

std::unique_ptr<Family> dtc::huggingface::readMistral(Config &config, const ModelOptions &options) {
  auto mistral = std::make_unique<Decoder>(config, options);
  if (!config.isNull("sliding_window"))
    mistral->readWindow(config, options);
  config.mustNotBeNull("num_key_value_heads");
  config.checkAllUsed();
  return mistral;
}
