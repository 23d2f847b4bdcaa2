// How evenly the documents of a corpus load the data-parallel ranks with attention.
//
// With separate_documents attention stays within a document, so a sample costs about the sum of the squares of the
// lengths of its documents: one document of n tokens costs k times as much as k documents of n / k tokens. Samples are
// windows of equal length whose sums differ, and ranks wait for the one with the largest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtc {

/// What of a program decides which samples meet in a step, and on which rank.
struct BatchShape {
  int64_t sequence = 1;     ///< tokens of a sample
  int64_t batch = 1;        ///< samples of a step
  int64_t microBatches = 1; ///< of a step
  int64_t ranks = 1;        ///< that share the rows of a micro-batch, in equal blocks
  double heldOut = 0;       ///< share of the tokens, at the end, that no step trains on
  uint64_t seed = 0;
};

/// Of the attention that ranks compute in a step, means over consecutive steps.
struct AttentionSpread {
  double variation = 0; ///< coefficient of variation over the ranks
  double excess = 0;    ///< by what share the busiest rank has more than the mean
  int64_t steps = 0;    ///< that were looked at; 0: there is no sample
};

/// Of a sample's documents, in squares of tokens: one number for each window of `sequence` tokens, in their order.
/// `documents`: lengths in tokens, in the order of the file.
std::vector<double> attentionOfWindows(std::span<const double> documents, int64_t sequence, double heldOut = 0);

/// Hands out windows as runtime/data/sampler.h does for one source, in up to `steps` consecutive steps of the first
/// epoch.
AttentionSpread attentionSpread(std::span<const double> documents, const BatchShape &shape, int64_t steps = 64);

/// The documents in the order in which `dtc data pack --balance attention` writes them, with the padding at the end of
/// samples. Documents longer than a sample are cut first. Of many documents only the first ones.
std::vector<double> packedByAttention(std::span<const double> documents, int64_t sequence);

} // namespace dtc
