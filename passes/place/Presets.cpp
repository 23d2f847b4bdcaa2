// The presets. This is the only file that knows strategies by name: what each writes are plain annotations.
#include "passes/place/Presets.h"

#include <numeric>

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

/// Data parallelism: the batch over dp.
static void addData(Annotations &annotations, MeshAttr mesh) {
  annotations.axes.push_back("dp");
  if (mesh.getAxisSize("dp"))
    annotations.inputs.push_back({"*", {{"batch", {"dp"}}}, /*required=*/false, "preset"});
}

static int64_t sizeOfDim(ArrayRef<ParamAttr> parameters, StringRef name) {
  for (ParamAttr parameter : parameters)
    for (auto [dim, size] : llvm::zip_equal(parameter.getDimNames(), parameter.getLogicalShape()))
      if (dim == name)
        return size;
  return 0;
}

/// Tensor parallelism as in Megatron-LM (Shoeybi et al., arXiv:1909.08053): heads, hidden units of the feed-forward
/// block and the vocabulary over tp. With fewer key/value heads than tp, these take the part of tp that divides them
/// and the query heads of a group take the rest.
static void addTensor(Annotations &annotations, MeshAttr mesh, ArrayRef<ParamAttr> parameters) {
  annotations.axes.push_back("tp");
  int64_t tp = mesh.getAxisSize("tp");
  if (!tp)
    return;
  DimAnnotation split{"*", {{"heads", {"tp"}}, {"mlp", {"tp"}}, {"vocab", {"tp"}}}, /*required=*/false, "preset"};
  if (int64_t keyHeads = sizeOfDim(parameters, "kv_heads")) {
    int64_t part = keyHeads >= tp ? tp : std::gcd(keyHeads, tp);
    auto axis = [&](int64_t pre, int64_t size) {
      return size == tp ? std::string("tp") : "tp:(" + std::to_string(pre) + ")" + std::to_string(size);
    };
    if (part > 1)
      split.dims.push_back({"kv_heads", {axis(1, part)}});
    if (part < tp)
      split.dims.push_back({"group", {axis(part, tp / part)}});
  }
  annotations.parameters.push_back(std::move(split));
}

/// Sequence parallelism as in Korthikanti et al., arXiv:2205.05198: between the blocks the residual stream is split
/// along the sequence, so that norms and dropout are too.
static void addSequence(Annotations &annotations, MeshAttr mesh) {
  if (mesh.getAxisSize("tp"))
    annotations.tags.push_back({"*residual*", {{"sequence", {"tp"}}}, /*required=*/false, "preset"});
}

ArrayRef<StringRef> dtc::getPresetNames() {
  static const StringRef names[] = {"ddp", "megatron", "megatron-sp"};
  return names;
}

std::optional<Annotations> dtc::buildPreset(StringRef name, MeshAttr mesh, ArrayRef<ParamAttr> parameters) {
  if (!llvm::is_contained(getPresetNames(), name))
    return std::nullopt;
  Annotations annotations;
  addData(annotations, mesh);
  if (name != "ddp")
    addTensor(annotations, mesh, parameters);
  if (name == "megatron-sp")
    addSequence(annotations, mesh);
  return annotations;
}
