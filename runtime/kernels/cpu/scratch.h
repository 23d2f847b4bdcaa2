// Working memory of a kernel: one block per thread, kept between calls, on huge pages if the system provides them
// (otherwise accesses to packed GEMM operands spend much of their time in address translation).
#pragma once

#include <cstdint>

namespace dtc::kernels {

/// At least `count` floats, aligned to 64 bytes, whose contents are undefined. Belongs to the calling thread and is
/// valid until its next call. Throws std::bad_alloc.
float *threadScratch(int64_t count);

} // namespace dtc::kernels
