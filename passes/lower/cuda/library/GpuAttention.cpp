// Which functions of attention a call needs.
#include "passes/lower/cuda/library/GpuAttention.h"
#include "passes/lower/cuda/library/GpuAttentionCode.h"

#include "dialect/IR/LibraryScalars.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/fused_gradient.h"
#include "runtime/abi/library/attention.h"

using namespace mlir;
using namespace dtc;

using abi::library::AttentionScalars;

static AttentionScalars scalarsOf(const dt::LibraryCall &call) { return dt::knownScalars<AttentionScalars>(call); }

std::optional<GpuAttention> GpuAttention::of(const dt::LibraryCall &call) {
  bool isBackward = call.kernel == "attention_backward";
  if (!isBackward && call.kernel != "attention_forward")
    return std::nullopt;
  AttentionScalars scalars = scalarsOf(call);
  return GpuAttention{isBackward,          scalars.element,     scalars.E,           scalars.causal != 0,
                      scalars.dropout > 0, scalars.window != 0, scalars.softcap > 0, scalars.starts != 0};
}

bool GpuAttention::usesMatrixUnits() const { return element != dtc_f32 && gpuMmaTakes(width); }

std::string GpuAttention::name(StringRef what) const {
  std::string result = ("dtc_cuda_" + what + "$").str();
  result += abi::nameOf(abi::DataType(element)) + "_" + std::to_string(width);
  return result + (causal ? "_causal" : "") + (dropout ? "_dropout" : "") + (window ? "_window" : "") +
         (softcap ? "_softcap" : "") + (documents ? "_documents" : "");
}

std::string GpuAttention::symbolOf(const dt::LibraryCall &call) const {
  AttentionScalars scalars = scalarsOf(call);
  std::string symbol = name(call.kernel) + "_" + std::to_string(scalars.B);
  for (int64_t size : {scalars.S, scalars.T, scalars.G, scalars.R})
    symbol += "x" + std::to_string(size);
  return symbol;
}

SmallVector<LaunchPass, 2> GpuAttention::passesOf(const dt::LibraryCall &call) const {
  AttentionScalars scalars = scalarsOf(call);
  auto tiles = [&](int64_t rows) { return (rows + GpuTiles::size - 1) / GpuTiles::size; };
  int64_t keyHeads = scalars.B * scalars.G, heads = keyHeads * scalars.R;
  int64_t threads = usesMatrixUnits() ? gpuMmaThreads : gpuFmaThreads;
  if (!isBackward)
    return {{name("attention_forward"), heads * tiles(scalars.S), threads}};
  constexpr int64_t threadsOfRow = 16; // of rowsum(dO o)
  return {
      {name("attention_deltas"), (heads * scalars.S * threadsOfRow + gpuFmaThreads - 1) / gpuFmaThreads, gpuFmaThreads},
      {name("attention_d_q"), heads * tiles(scalars.S), threads},
      {name("attention_d_kv"), keyHeads * tiles(scalars.T), threads}};
}

int64_t GpuAttention::scratchBytesOf(const dt::LibraryCall &call) const {
  if (!isBackward)
    return 0;
  AttentionScalars scalars = scalarsOf(call);
  return static_cast<int64_t>(abi::bytesOf(abi::F32, scalars.grid() * scalars.S));
}

int64_t GpuAttention::libraryScratchBytesOf(const dt::LibraryCall &call) const {
  AttentionScalars scalars = scalarsOf(call);
  if (!isBackward || abi::library::whyNotFused(scalars))
    return 0;
  abi::FusedGradient gradient{abi::DataType(element), scalars.B, scalars.G, scalars.R, scalars.S, scalars.T, width};
  std::optional<abi::FusedGradient> piece = gradient.pieceWithin(mostLibraryScratch);
  return piece ? piece->scratchBytes() : 0;
}

void dtc::addGpuAttention(const GpuAttention &kind, gpu::GPUModuleOp module) {
  if (kind.isBackward)
    emitAttentionBackward(kind, module);
  else
    emitAttentionForward(kind, module);
}
