// Documents packed into samples that cost about the same attention.
//
// Where attention stays within a document, a document of n tokens costs n^2. Samples have equal lengths, so those of a
// few long documents cost several times as much as those of many short ones, and ranks wait for the one that has them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dtc {

/// The documents of each sample, by their numbers, ascending. `lengths`: tokens of the documents, each at most
/// `window`, the tokens of a sample. Each document is in one sample, whole. Samples that are not full are left so.
///
/// A greedy choice, the longest document first: it goes to the sample that has room for it and needs the longest
/// documents, where an even share of all squares, less what the sample has of it, is divided by its room. So samples
/// with long documents get short ones. A document that is longer than what the even share allows makes its sample cost
/// more, however it is packed.
std::vector<std::vector<size_t>> balancedSamples(std::span<const size_t> lengths, size_t window);

} // namespace dtc
