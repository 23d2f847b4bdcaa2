// Qwen2: Yang et al., arXiv:2407.10671. Llama with biases on queries, keys and values, and windows in the upper layers.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

std::unique_ptr<Family> dtc::huggingface::readQwen2(Config &config, const ModelOptions &options) {
  auto qwen = std::make_unique<Decoder>(config, options);
  qwen->readRotary(config);
  qwen->queryBias = true;
  config.mustNotBeNull("head_dim");
  config.mustBeUnset("use_mrope", "positions are those of text");
  qwen->readUpperWindows(config);
  config.checkAllUsed({"sliding_window", "max_window_layers"}); // files may name what is not used
  return qwen;
}
