// Mistral: Jiang et al., arXiv:2310.06825. Llama with a window over earlier positions in every layer.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

static std::unique_ptr<Family> readMistral(Config &config, const ModelOptions &options) {
  auto mistral = std::make_unique<Decoder>(config, options);
  mistral->readRotary(config);
  mistral->window = config.window("sliding_window");
  mistral->hasWindow.assign(mistral->layers, mistral->window.has_value());
  config.mustNotBeNull("num_key_value_heads");
  config.checkAllUsed();
  return mistral;
}

FamilyDefinition dtc::huggingface::defineMistral() {
  return {"mistral", "Mistral", "arXiv:2310.06825", readMistral,
          decoderDefaults({{"vocab_size", 32000},
                           {"intermediate_size", 14336},
                           {"num_key_value_heads", 8},
                           {"max_position_embeddings", 131072},
                           {"sliding_window", 4096}})};
}
