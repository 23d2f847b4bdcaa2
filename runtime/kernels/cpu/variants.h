// The kernels whose speed depends on vector width are compiled once per x86-64 level, each level in its own namespace
// and with one table; kernels.cpp picks a table when the program starts. Results may differ between levels in the last
// bits, but never between runs at one level.
#pragma once

#include "runtime/abi/kernel.h"

namespace dtc::kernels {

struct VariantTable {
  dtc_kernel_fn gemm;
  dtc_kernel_fn attentionForward;
  dtc_kernel_fn attentionBackward;
  dtc_kernel_fn rotary;
  /// out[i] = e^in[i]: the exponential that attention uses. buffers: in, out. grid: elements.
  dtc_kernel_fn exponential;
};

namespace v3 {
extern const VariantTable table;
}
namespace v4 {
extern const VariantTable table;
}
/// x86-64-v4 with AVX512_BF16: products of bf16 in pairs, everything else as in v4.
namespace v4bf16 {
extern const VariantTable table;
}
/// v4bf16 with AMX: products of bf16 in tiles.
namespace v4amx {
extern const VariantTable table;
}

/// Whether this machine can run the kernels of v4bf16.
bool hasBf16Products();
/// Whether it can run the kernels of v4amx. Asks the system for permission to use tiles, which this process then keeps.
bool hasTileProducts();

/// The table of the highest level that this machine supports. dtc requires at least x86-64-v3.
const VariantTable &bestVariant();

} // namespace dtc::kernels
