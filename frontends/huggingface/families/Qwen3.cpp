// Qwen3: Yang et al., arXiv:2505.09388. Qwen2 with a norm of each head's queries and keys in place of the biases.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

static std::unique_ptr<Family> readQwen3(Config &config, const ModelOptions &options) {
  auto qwen = std::make_unique<Decoder>(config, options);
  qwen->readRotary(config);
  qwen->headNorms = Decoder::HeadNorms::EachHead;
  qwen->queryBias = qwen->outputBias = config.flag("attention_bias");
  config.mustNotBeNull("head_dim");
  qwen->readUpperWindows(config);
  config.checkAllUsed({"sliding_window", "max_window_layers"}); // files may name what is not used
  return qwen;
}

FamilyDefinition dtc::huggingface::defineQwen3() {
  return {"qwen3", "Qwen 3", "arXiv:2505.09388", readQwen3,
          decoderDefaults({{"vocab_size", 151936},
                           {"intermediate_size", 22016},
                           {"num_key_value_heads", 32},
                           {"head_dim", 128},
                           {"max_position_embeddings", 32768},
                           {"use_sliding_window", false},
                           {"sliding_window", 4096},
                           {"max_window_layers", 28}})};
}
