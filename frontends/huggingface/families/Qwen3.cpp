// Qwen3: Yang et al., arXiv:2505.09388. Qwen2 with a norm of each head's queries and keys instead of the biases.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

static void readQwen3(Decoder &qwen, Config &config) {
  qwen.headNorms = Decoder::HeadNorms::EachHead;
  qwen.queryBias = qwen.outputBias = config.flag("attention_bias");
  config.mustNotBeNull("head_dim");
  qwen.readUpperWindows(config);
  config.checkAllUsed({"sliding_window", "max_window_layers"}); // files may name what is not used
}

FamilyDefinition dtc::huggingface::defineQwen3() {
  return {"qwen3", "Qwen 3", "arXiv:2505.09388", readDecoder<readQwen3>,
          decoderDefaults({151936, 22016, 32768}, {{"num_key_value_heads", 32},
                                                   {"head_dim", 128},
                                                   {"use_sliding_window", false},
                                                   {"sliding_window", 4096},
                                                   {"max_window_layers", 28}})};
}
