// What Gemma 2 and Gemma 3 have in common.
#pragma once

#include "frontends/huggingface/Decoder.h"

namespace dtc::huggingface {

/// Norms before and after each block, which multiply by 1 + weight; embeddings scaled by sqrt(hidden_size); scores by
/// query_pre_attn_scalar; windows in the layers that layer_types names, or else in `usual`.
std::unique_ptr<Decoder> readGemma(Config &config, const ModelOptions &options,
                                   const std::function<bool(int64_t layer)> &usual);

/// decoderDefaults as these families change them, with the vocab_size and max_position_embeddings of one of them and
/// what it has of its own.
ConfigValues gemmaDefaults(int64_t vocab, int64_t positions, const ConfigValues &own);

/// A soft cap, unless the file has none.
std::optional<double> readSoftCap(Config &config, std::string_view key);

} // namespace dtc::huggingface
