// Products and attention for the stand-in: the processor's kernels, on the bytes behind the device's addresses.
#pragma once

#include "runtime/device/cuda/library_kernels.h"

#include <memory>

namespace dtc::test {

/// Functions of the library's names that do the work when the stream comes to them; what else there is are the
/// library's own attempts.
std::unique_ptr<cuda::LibraryKernels> makeCpuLibrary();

} // namespace dtc::test
