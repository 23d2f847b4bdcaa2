#include "runtime/kernels/cpu/variant.h"
#include "runtime/kernels/cpu/variants.h"

namespace dtc::kernels::DTC_KERNEL_LEVEL {

static void exponentialKernel(void *const *buffers, const int64_t *, int64_t begin, int64_t end) {
  const float *in = static_cast<const float *>(buffers[0]);
  float *out = static_cast<float *>(buffers[1]);
  for (int64_t i = begin; i < end; i += lanes) {
    Mask mask = firstLanes(smaller(lanes, end - i));
    store(out + i, exponential(load(in + i, mask)), mask);
  }
}

const VariantTable table = {gemm, attentionForward, attentionBackward, rotary, exponentialKernel};

} // namespace dtc::kernels::DTC_KERNEL_LEVEL
