#include "runtime/kernels/cpu/kernels.h"
#include "runtime/kernels/cpu/variants.h"

#include <algorithm>
#include <iterator>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace dtc::kernels {

bool hasBf16Products() { return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512bf16"); }

bool hasTileProducts() {
  static constexpr long RequestPermission = 0x1023, TileData = 18; // arch_prctl(2)
  return hasBf16Products() && __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
         syscall(SYS_arch_prctl, RequestPermission, TileData) == 0;
}

const VariantTable &bestVariant() {
  static const VariantTable &best = hasTileProducts()                     ? v4amx::table
                                    : hasBf16Products()                   ? v4bf16::table
                                    : __builtin_cpu_supports("x86-64-v4") ? v4::table
                                                                          : v3::table;
  return best;
}

dtc_kernel_fn find(std::string_view symbol) {
  static constexpr std::pair<std::string_view, dtc_kernel_fn> all[] = {
      {"dtc_gemm", dtc_gemm},
      {"dtc_attention_forward", dtc_attention_forward},
      {"dtc_attention_backward", dtc_attention_backward},
      {"dtc_rotary", dtc_rotary},
      {"dtc_gather", dtc_gather},
      {"dtc_scatter_add", dtc_scatter_add},
      {"dtc_write_rows", dtc_write_rows},
      {"dtc_copy", dtc_copy},
      {"dtc_fill", dtc_fill},
  };
  const auto *entry = std::find_if(std::begin(all), std::end(all), [&](const auto &e) { return e.first == symbol; });
  return entry == std::end(all) ? nullptr : entry->second;
}

} // namespace dtc::kernels

extern "C" {

void dtc_gemm(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  dtc::kernels::bestVariant().gemm(buffers, scalars, begin, end);
}

void dtc_attention_forward(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  dtc::kernels::bestVariant().attentionForward(buffers, scalars, begin, end);
}

void dtc_attention_backward(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  dtc::kernels::bestVariant().attentionBackward(buffers, scalars, begin, end);
}

void dtc_rotary(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  dtc::kernels::bestVariant().rotary(buffers, scalars, begin, end);
}
}
