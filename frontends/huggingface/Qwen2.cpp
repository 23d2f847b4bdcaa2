// Qwen2: Yang et al., arXiv:2407.10671. Llama with biases on queries, keys and values.
#include "frontends/huggingface/Decoder.h"

using namespace dtc;
using namespace dtc::huggingface;

std::unique_ptr<Family> dtc::huggingface::readQwen2(Config &config, const ModelOptions &options) {
  auto qwen = std::make_unique<Decoder>(config, options);
  qwen->queryBias = true;
  config.mustNotBeNull("head_dim");
  bool hasWindow = config.flag("use_sliding_window");
  if (hasWindow)
    qwen->readWindow(config, options);
  qwen->readLayerTypes(config, hasWindow);
  // Files name a window also where none is used; the layers that have it come after so many.
  config.checkAllUsed({"sliding_window", "max_window_layers"});
  return qwen;
}
