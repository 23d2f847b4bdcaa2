// Gemma 3, its text models: Gemma Team, arXiv:2503.19786. Gemma 2 with norms of queries and keys instead of the scores'
// soft cap, and rotary positions of their own in layers with a window.
#include "frontends/huggingface/Gemma.h"
#include "runtime/weights/config_rules.h"

using namespace dtc;
using namespace dtc::huggingface;

/// Newer files have rope_parameters by layer type; older ones have rope_theta and rope_scaling for the layers without a
/// window, and rope_local_base_freq for the others.
static void readRotaries(Decoder &gemma, Config &config) {
  static constexpr std::string_view types[] = {"default", "linear"};
  gemma.rope = Rope::plain(config.number("rope_theta"));
  gemma.windowRope = Rope::plain(config.number("rope_local_base_freq"));
  std::optional<Config> scaling = config.nested("rope_scaling"), byType = config.nested("rope_parameters");
  if (scaling && byType)
    config.fail("rope_parameters", "is given together with rope_scaling, which means the same; keep only one");
  if (scaling)
    gemma.rope.read(*scaling, gemma.positions, types);
  if (byType) {
    if (std::optional<Config> entries = byType->nested("full_attention"))
      gemma.rope.read(*entries, gemma.positions, types);
    if (std::optional<Config> entries = byType->nested("sliding_attention"))
      gemma.windowRope->read(*entries, gemma.positions, types);
    byType->checkAllUsed();
  }
  gemma.rope.check(config, gemma.headDim, "head_dim");
  gemma.windowRope->check(config, gemma.headDim, "head_dim");
}

static std::unique_ptr<Family> readGemma3(Config &config, const ModelOptions &options) {
  int64_t pattern = config.size("sliding_window_pattern");
  auto usual = [&](int64_t layer) { return config_rules::isNotEveryNth(layer, pattern); };
  auto gemma = readGemma(config, options, usual);
  readRotaries(*gemma, config);
  gemma->headNorms = Decoder::HeadNorms::EachHead;
  config.mustBeUnset("attn_logit_softcapping", "gemma3 has no soft cap of scores");
  // hidden_activation counts, and so does the pattern without the underscore.
  config.checkAllUsed({"hidden_act", "_sliding_window_pattern"});
  return gemma;
}

FamilyDefinition dtc::huggingface::defineGemma3() {
  return {"gemma3_text", "Gemma 3, its text models", "arXiv:2503.19786", readGemma3,
          gemmaDefaults(262208, 131072,
                        {{"rope_theta", 1000000}, {"rope_local_base_freq", 10000}, {"sliding_window_pattern", 6}})};
}
