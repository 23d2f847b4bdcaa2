// Phi-3: Abdin et al., arXiv:2404.14219. Llama with fused projections, in which only a part of each head may be
// rotated.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

static std::unique_ptr<Family> readPhi3(Config &config, const ModelOptions &options) {
  auto phi = std::make_unique<Decoder>(config, options);
  static constexpr std::string_view types[] = {"default"}; // "longrope" depends on the length of each text
  phi->readRotary(config, {.share = "partial_rotary_factor", .types = types});
  phi->fused = true;
  phi->residualDropout = options.dropout.value_or(config.probability("resid_pdrop"));
  phi->window = config.window("sliding_window");
  phi->hasWindow.assign(phi->layers, phi->window.has_value());
  for (std::string_view key : {"attention_bias", "mlp_bias", "lm_head_bias"})
    config.mustBeUnset(key, "phi3 has no biases");
  config.mustNotBeNull("head_dim");
  // Embeddings have no dropout, although the file has the key; the old length is only for longrope.
  config.checkAllUsed({"embd_pdrop", "original_max_position_embeddings"});
  return phi;
}

FamilyDefinition dtc::huggingface::definePhi3() {
  return {"phi3", "Phi-3 without longrope", "arXiv:2404.14219", readPhi3,
          decoderDefaults({32064, 8192, 4096}, {{"hidden_size", 3072},
                                                {"original_max_position_embeddings", 4096},
                                                {"resid_pdrop", 0},
                                                {"embd_pdrop", 0},
                                                {"pad_token_id", 32000},
                                                {"partial_rotary_factor", 1},
                                                {"rms_norm_eps", 1e-5}})};
}
