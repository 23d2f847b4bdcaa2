// How a reduction is divided among the members that add, and how each adds what arrives.
#pragma once

#include "runtime/comm/hosts/streams.h"

#include "runtime/abi/manifest.pb.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtc {

/// The bytes of slice `index` of `slices` of a run of elements, which begins a whole number of cache lines from the
/// start of the run.
Strided sliceOf(std::byte *base, int64_t elements, int64_t width, int64_t index, int64_t slices);

/// The part of an operand that result `index` of `count` is made of: a slice for an all-reduce, a chunk of each row for
/// a reduce-scatter.
Strided partOf(const abi::Collective &collective, std::byte *base, int64_t index, int64_t count);

/// Copies bytes [begin, end), which may be laid out differently in the two.
void copyPieces(const Strided &target, const Strided &source, int64_t begin, int64_t end);

/// Adds terms, some of which may still be arriving, as far as all have arrived.
class Adding {
public:
  /// Terms of type `from`, results of type `to`, as for reduceInto.
  Adding(abi::DataType from, abi::DataType to, abi::Reduction reduction, int64_t elements);

  std::vector<Strided> terms;   ///< in the order in which they are added
  std::vector<Strided> results; ///< the sums go to all of them

  /// Adds the elements before `available`, in whole segments except for the very last one.
  void advance(int64_t available, int64_t segment);
  /// How many elements have been added.
  int64_t done() const { return doneElements; }

private:
  int64_t contiguousElements() const;

  abi::DataType from, to;
  abi::Reduction reduction;
  int64_t elements, doneElements = 0;
  std::vector<const std::byte *> sources;
  std::vector<std::byte *> targets;
};

} // namespace dtc
