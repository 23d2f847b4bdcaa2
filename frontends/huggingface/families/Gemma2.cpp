// Gemma 2: Gemma Team, arXiv:2408.00118.
#include "frontends/huggingface/Gemma.h"
#include "runtime/weights/config_rules.h"

using namespace dtc;
using namespace dtc::huggingface;

static constexpr int64_t windowPattern = 2; // which no file can change

static std::unique_ptr<Family> readGemma2(Config &config, const ModelOptions &options) {
  auto usual = [](int64_t layer) { return config_rules::isNotEveryNth(layer, windowPattern); };
  auto gemma = readGemma(config, options, usual);
  gemma->readRotary(config);
  gemma->scoreCap = readSoftCap(config, "attn_logit_softcapping");
  config.checkAllUsed({"hidden_act"}); // hidden_activation counts
  return gemma;
}

FamilyDefinition dtc::huggingface::defineGemma2() {
  return {"gemma2", "Gemma 2", "arXiv:2408.00118", readGemma2,
          gemmaDefaults(256000, 8192,
                        {{"attn_logit_softcapping", 50},
                         {"final_logit_softcapping", 30},
                         {"sliding_window_pattern", windowPattern}})};
}
