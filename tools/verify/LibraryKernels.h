// The library kernels of runtime/kernels/kernels.h once more, in f64 and without any cleverness. Buffers, scalars and
// grids are as that header says.
#pragma once

#include "tools/verify/Buffer.h"

#include <string_view>
#include <vector>

namespace dtc::verify {

struct LibraryLaunch {
  std::vector<Buffer> buffers;
  std::vector<int64_t> scalars; ///< doubles as bit patterns
  int64_t grid;
};

using LibraryReference = void (*)(const LibraryLaunch &);

/// The reference of a library kernel, or null when there is none of that name.
LibraryReference findLibraryReference(std::string_view symbol);

} // namespace dtc::verify
