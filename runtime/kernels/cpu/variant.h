// The kernels of one level, under the names that the level's table uses. Compiled per level.
#pragma once

#include "runtime/kernels/cpu/simd.h"

namespace dtc::kernels::DTC_KERNEL_LEVEL {

void gemm(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end);
void attentionForward(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end);
void attentionBackward(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end);
void rotary(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end);

} // namespace dtc::kernels::DTC_KERNEL_LEVEL
