// The kernels whose speed depends on vector width are compiled once per x86-64 level, each level in a namespace of its
// own and with one table; kernels.cpp picks a table when the program starts. A result may differ between levels in the
// last bits, never between runs at one level.
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
/// x86-64-v4 with AVX512_BF16: products of bf16 in pairs, all else as in v4.
namespace v4bf16 {
extern const VariantTable table;
}
/// v4bf16 with AMX: products of bf16 in tiles.
namespace v4amx {
extern const VariantTable table;
}

/// Whether this machine can run the kernels of v4bf16.
bool hasBf16Products();
/// Whether it can run those of v4amx; asks the system for leave to use tiles, which this process then has.
bool hasTileProducts();

/// The table of the highest level that this machine has. x86-64-v3 is the least that dtc supports.
const VariantTable &bestVariant();

} // namespace dtc::kernels
