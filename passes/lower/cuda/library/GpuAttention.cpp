// Which functions of attention a call needs.
#include "passes/lower/cuda/library/GpuAttention.h"
#include "passes/lower/cuda/library/GpuAttentionCode.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/fused_gradient.h"
#include "runtime/abi/kernel.h"

using namespace mlir;
using namespace dtc;

static int64_t sizeOf(const dt::LibraryCall &call, GpuAttentionCode::Scalar scalar) {
  return call.scalars[scalar].integer;
}

std::optional<GpuAttention> GpuAttention::of(const dt::LibraryCall &call) {
  bool isBackward = call.kernel == "attention_backward";
  if (!isBackward && call.kernel != "attention_forward")
    return std::nullopt;
  return GpuAttention{isBackward,
                      sizeOf(call, GpuAttentionCode::Element),
                      sizeOf(call, GpuAttentionCode::Width),
                      sizeOf(call, GpuAttentionCode::Causal) != 0,
                      call.scalars[GpuAttentionCode::Dropout].real > 0,
                      sizeOf(call, GpuAttentionCode::Window) != 0,
                      call.scalars[GpuAttentionCode::Softcap].real > 0,
                      sizeOf(call, GpuAttentionCode::Documents) != 0};
}

bool GpuAttention::usesMatrixUnits() const { return element != dtc_f32 && gpuMmaTakes(width); }

std::string GpuAttention::name(StringRef what) const {
  std::string result = ("dtc_cuda_" + what + "$").str();
  result += abi::nameOf(abi::DataType(element)) + "_" + std::to_string(width);
  return result + (causal ? "_causal" : "") + (dropout ? "_dropout" : "") + (window ? "_window" : "") +
         (softcap ? "_softcap" : "") + (documents ? "_documents" : "");
}

std::string GpuAttention::symbolOf(const dt::LibraryCall &call) const {
  std::string symbol = name(call.kernel);
  for (auto scalar : {GpuAttentionCode::Batches, GpuAttentionCode::Queries, GpuAttentionCode::Keys,
                      GpuAttentionCode::Groups, GpuAttentionCode::Repeats})
    symbol += (scalar == GpuAttentionCode::Batches ? "_" : "x") + std::to_string(sizeOf(call, scalar));
  return symbol;
}

SmallVector<LaunchPass, 2> GpuAttention::passesOf(const dt::LibraryCall &call) const {
  auto size = [&](GpuAttentionCode::Scalar scalar) { return sizeOf(call, scalar); };
  auto tiles = [&](int64_t rows) { return (rows + GpuTiles::size - 1) / GpuTiles::size; };
  int64_t keyHeads = size(GpuAttentionCode::Batches) * size(GpuAttentionCode::Groups);
  int64_t heads = keyHeads * size(GpuAttentionCode::Repeats), queries = size(GpuAttentionCode::Queries);
  int64_t threads = usesMatrixUnits() ? gpuMmaThreads : gpuFmaThreads;
  if (!isBackward)
    return {{name("attention_forward"), heads * tiles(queries), threads}};
  constexpr int64_t threadsOfRow = 16; // of rowsum(dO o)
  return {
      {name("attention_deltas"), (heads * queries * threadsOfRow + gpuFmaThreads - 1) / gpuFmaThreads, gpuFmaThreads},
      {name("attention_d_q"), heads * tiles(queries), threads},
      {name("attention_d_kv"), keyHeads * tiles(size(GpuAttentionCode::Keys)), threads}};
}

int64_t GpuAttention::scratchBytesOf(const dt::LibraryCall &call) const {
  if (!isBackward)
    return 0;
  int64_t rows = sizeOf(call, GpuAttentionCode::Batches) * sizeOf(call, GpuAttentionCode::Groups) *
                 sizeOf(call, GpuAttentionCode::Repeats) * sizeOf(call, GpuAttentionCode::Queries);
  return static_cast<int64_t>(abi::bytesOf(abi::F32, rows));
}

int64_t GpuAttention::libraryScratchBytesOf(const dt::LibraryCall &call) const {
  constexpr int64_t mostWidth = 128;
  if (!isBackward || element == dtc_f32 || dropout || window || softcap || documents || width % 8 != 0 ||
      width > mostWidth || sizeOf(call, GpuAttentionCode::Causal) == 1)
    return 0;
  auto size = [&](GpuAttentionCode::Scalar scalar) { return sizeOf(call, scalar); };
  abi::FusedGradient gradient{abi::DataType(element),
                              size(GpuAttentionCode::Batches),
                              size(GpuAttentionCode::Groups),
                              size(GpuAttentionCode::Repeats),
                              size(GpuAttentionCode::Queries),
                              size(GpuAttentionCode::Keys),
                              width};
  std::optional<abi::FusedGradient> piece = gradient.pieceWithin(mostLibraryScratch);
  return piece ? piece->scratchBytes() : 0;
}

void dtc::addGpuAttention(const GpuAttention &kind, gpu::GPUModuleOp module) {
  if (kind.isBackward)
    emitAttentionBackward(kind, module);
  else
    emitAttentionForward(kind, module);
}
