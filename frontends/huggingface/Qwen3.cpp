// Qwen3: Yang et al., arXiv:2505.09388. Qwen2 with a norm of each head's queries and keys in place of the biases.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

std::unique_ptr<Family> dtc::huggingface::readQwen3(Config &config, const ModelOptions &options) {
  auto qwen = std::make_unique<Decoder>(config, options);
  qwen->readRotary(config);
  qwen->headNorms = Decoder::HeadNorms::EachHead;
  qwen->queryBias = qwen->outputBias = config.flag("attention_bias");
  config.mustNotBeNull("head_dim");
  qwen->readUpperWindows(config);
  config.checkAllUsed({"sliding_window", "max_window_layers"}); // files may name what is not used
  return qwen;
}
