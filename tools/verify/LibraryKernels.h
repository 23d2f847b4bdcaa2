// The library kernels of runtime/abi/library again, written as simply as possible: in f64, or in estimates of how far
// code in f32 may be from that (Estimate.h). Buffers, scalars and grids are as their tables say.
#pragma once

#include "tools/verify/Buffer.h"

#include <optional>
#include <string_view>
#include <vector>

namespace dtc::verify {

template <class Number> struct LibraryLaunchOf {
  std::vector<BufferOf<Number>> buffers;
  std::vector<int64_t> scalars; ///< doubles as bit patterns
  int64_t grid;
  std::optional<int64_t> part = std::nullopt; ///< how much of the grid is run, for references that support it
};

using LibraryLaunch = LibraryLaunchOf<double>;

template <class Number> using LibraryReferenceOf = void (*)(const LibraryLaunchOf<Number> &);
using LibraryReference = LibraryReferenceOf<double>;

/// The reference of a library kernel, or null when there is none of that name. For double and Estimate; products with
/// epilogues, which no processor's library has, only for double.
template <class Number = double> LibraryReferenceOf<Number> findLibraryReference(std::string_view symbol);

} // namespace dtc::verify
