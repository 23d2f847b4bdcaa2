// Library kernels: the work that generated code leaves to hand-written or library routines. Each has the signature
// dtc_kernel_fn. The header of the same name in runtime/abi/library describes what it does, its buffers, scalars and
// grid.
#pragma once

#include "runtime/abi/kernel.h"

#include <string_view>

namespace dtc::kernels {

/// The library kernel of that name, or null.
dtc_kernel_fn find(std::string_view symbol);

} // namespace dtc::kernels

extern "C" {
void dtc_gemm(void *const *, const int64_t *, int64_t, int64_t);
void dtc_attention_forward(void *const *, const int64_t *, int64_t, int64_t);
void dtc_attention_backward(void *const *, const int64_t *, int64_t, int64_t);
void dtc_rotary(void *const *, const int64_t *, int64_t, int64_t);
void dtc_gather(void *const *, const int64_t *, int64_t, int64_t);
void dtc_scatter_add(void *const *, const int64_t *, int64_t, int64_t);
void dtc_write_rows(void *const *, const int64_t *, int64_t, int64_t);
void dtc_copy(void *const *, const int64_t *, int64_t, int64_t);
void dtc_fill(void *const *, const int64_t *, int64_t, int64_t);
}
