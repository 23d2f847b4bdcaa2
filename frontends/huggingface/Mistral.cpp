// Mistral: Jiang et al., arXiv:2310.06825. Llama with a window over earlier positions in every layer.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

std::unique_ptr<Family> dtc::huggingface::readMistral(Config &config, const ModelOptions &options) {
  auto mistral = std::make_unique<Decoder>(config, options);
  mistral->readRotary(config);
  mistral->window = config.window("sliding_window");
  mistral->hasWindow.assign(mistral->layers, mistral->window.has_value());
  config.mustNotBeNull("num_key_value_heads");
  config.checkAllUsed();
  return mistral;
}
