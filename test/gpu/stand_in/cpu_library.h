// Products and attention for the stand-in: the processor's kernels, on the bytes behind the device's addresses.
#pragma once

#include "runtime/kernels/cuda/library.h"

namespace dtc::test {

/// Functions of the library's names that do the work when the stream comes to them.
cuda::LibraryFunction findCpuLibraryFunction(const cuda::Gpu &gpu, std::string_view symbol);

} // namespace dtc::test
