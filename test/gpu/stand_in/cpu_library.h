// Products and attention for the stand-in: the processor's kernels, on the bytes behind the device's addresses.
#pragma once

#include "runtime/device/cuda/library_kernels.h"

#include <memory>

namespace dtc::test {

/// Functions with the library's names that do the work when the stream reaches them; everything else is the library's
/// own attempts.
std::unique_ptr<cuda::LibraryKernels> makeCpuLibrary();

} // namespace dtc::test
