// Qwen2: Yang et al., arXiv:2407.10671. Llama with biases on queries, keys and values, and windows in the upper layers.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

static void readQwen2(Decoder &qwen, Config &config) {
  qwen.queryBias = true;
  config.mustNotBeNull("head_dim");
  config.mustBeUnset("use_mrope", "positions are those of text");
  qwen.readUpperWindows(config);
  config.checkAllUsed({"sliding_window", "max_window_layers"}); // files may name what is not used
}

FamilyDefinition dtc::huggingface::defineQwen2() {
  return {"qwen2", "Qwen 2 and 2.5", "arXiv:2407.10671", readDecoder<readQwen2>,
          decoderDefaults({151936, 22016, 32768}, {{"num_key_value_heads", 32},
                                                   {"use_sliding_window", false},
                                                   {"sliding_window", 4096},
                                                   {"max_window_layers", 28}})};
}
