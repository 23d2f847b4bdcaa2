// The calling convention shared by generated kernels, library kernels and the executor. C, so that generated code can
// follow it.
#pragma once

#include <cstdint>

extern "C" {

/// Element types that library kernels compute with; the numbers are those of manifest.proto's DataType.
enum dtc_element { dtc_f32 = 0, dtc_bf16 = 2, dtc_f16 = 3 };

/// A kernel does the part [begin, end) of its grid. Parts may run on different threads at once and in any order; a
/// kernel's result must not depend on how its grid is cut.
///
/// buffers: addresses of inputs, then outputs (a buffer updated in place is in both groups or only among the outputs,
/// as the kernel says). scalars: 64-bit integers; doubles as bit patterns.
typedef void (*dtc_kernel_fn)(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end);
}
