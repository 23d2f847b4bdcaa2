// The kernels of every target's library.
#pragma once

#include "runtime/abi/library/attention.h"
#include "runtime/abi/library/copy.h"
#include "runtime/abi/library/fill.h"
#include "runtime/abi/library/gather.h"
#include "runtime/abi/library/gemm.h"
#include "runtime/abi/library/rotary.h"
#include "runtime/abi/library/scatter_add.h"
#include "runtime/abi/library/write_rows.h"

namespace dtc::abi::library {

/// Without "product", which only NVIDIA's library has.
inline constexpr const KernelTable *allKernels[] = {
    &tableOf<GemmScalars>,      &tableOf<AttentionScalars>, &tableOf<AttentionBackwardScalars>,
    &tableOf<RotaryScalars>,    &tableOf<GatherScalars>,    &tableOf<ScatterAddScalars>,
    &tableOf<WriteRowsScalars>, &tableOf<CopyScalars>,      &tableOf<FillScalars>,
};

} // namespace dtc::abi::library
