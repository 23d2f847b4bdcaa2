// Mistral: Jiang et al., arXiv:2310.06825. Llama with a window over earlier positions in every layer.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

static void readMistral(Decoder &mistral, Config &config) {
  mistral.window = config.window("sliding_window");
  mistral.hasWindow.assign(mistral.layers, mistral.window.has_value());
  config.mustNotBeNull("num_key_value_heads");
  config.checkAllUsed();
}

FamilyDefinition dtc::huggingface::defineMistral() {
  return {"mistral", "Mistral", "arXiv:2310.06825", readDecoder<readMistral>,
          decoderDefaults({32000, 14336, 131072}, {{"num_key_value_heads", 8}, {"sliding_window", 4096}})};
}
