// The presets. This is the only file that knows strategies by name: each writes plain annotations.
#include "passes/place/Presets.h"
#include "llvm/ADT/StringSwitch.h"

#include <numeric>

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

static constexpr StringLiteral hybrid = "hsdp", contextAxis = "cp";

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
/// along the sequence, so that norms and dropout are too. `context` are the axes that split the sequence already.
static void addSequence(Annotations &annotations, MeshAttr mesh, std::vector<std::string> context) {
  if (!mesh.getAxisSize("tp"))
    return;
  context.push_back("tp");
  annotations.tags.push_back({"*residual*", {{"sequence", std::move(context)}}, /*required=*/false, "preset"});
}

/// Context parallelism: the sequence of the inputs over cp, and with it every activation. Attention alone needs other
/// positions: it gathers keys and values, as in Llama 3 (arXiv:2407.21783, section 3.3.2).
static void addContext(Annotations &annotations, MeshAttr mesh) {
  annotations.axes.push_back(contextAxis.str());
  if (mesh.getAxisSize(contextAxis))
    annotations.inputs.push_back({"*", {{"sequence", {contextAxis.str()}}}, /*required=*/false, "preset"});
}

/// The zero redundancy optimizer (Rajbhandari et al., arXiv:1910.02054): what the ranks of these axes would all hold is
/// split among them. Stage 1: the optimizer's state; 2: gradients too; 3: parameters too (FSDP, arXiv:2304.11277).
static void addZero(Annotations &annotations, int stage, const std::vector<std::string> &axes) {
  DimAnnotation shards{"*", {{"any", axes}}, /*required=*/false, "preset"};
  annotations.slots.push_back(shards);
  if (stage >= 2)
    annotations.gradients.push_back(shards);
  if (stage >= 3)
    annotations.storage.push_back(shards);
}

/// Like stage 3, but within groups of `shards` neighbouring ranks of dp. Each group, with the ranks of `context` that
/// work for it, holds a whole copy.
static LogicalResult addHybrid(Annotations &annotations, StringRef shards, MeshAttr mesh,
                               const std::vector<std::string> &context, ErrorCallback error) {
  int64_t dp = mesh.getAxisSize("dp"), size = 0;
  if (shards.getAsInteger(10, size) || size < 1 || dp % size != 0) {
    error("preset 'hsdp:" + shards + "' needs a number of shards that divides dp=" + Twine(dp) +
          "; write for example hsdp:" + Twine(dp % 2 == 0 ? 2 : 1));
    return failure();
  }
  std::vector<std::string> axes;
  if (size > 1)
    axes.push_back(size == dp ? "dp" : "dp:(" + std::to_string(dp / size) + ")" + std::to_string(size));
  axes.insert(axes.end(), context.begin(), context.end());
  if (!axes.empty())
    addZero(annotations, 3, axes);
  return success();
}

std::string dtc::adviceOnAxis(StringRef axis) {
  return llvm::StringSwitch<std::string>(axis)
      .Cases({"pipe", "pipeline"}, "the axis of a pipeline is called 'pp'. Rename the axis")
      .Cases({"ep", "expert", "experts"}, "expert parallelism is not supported yet. Leave the axis out")
      .Case(contextAxis, "the preset 'cp' splits the sequence over it; add it to the strategy, as in megatron+cp")
      .Cases({"context", "sequence", "seq", "sp"},
             "the preset 'cp' splits the sequence over an axis called 'cp'. Rename the axis and add the preset")
      .Default("");
}

ArrayRef<StringRef> dtc::getPresetNames() {
  static const StringRef names[] = {"ddp", "megatron", "megatron-sp", "cp", "zero1", "zero2", "zero3", "fsdp", hybrid};
  return names;
}

/// "megatron-sp+hsdp:2" is the parts "megatron-sp" and "hsdp" of "2".
static SmallVector<std::pair<StringRef, StringRef>> partsOf(StringRef text) {
  SmallVector<StringRef> parts;
  text.split(parts, '+');
  return llvm::map_to_vector(parts, [](StringRef part) { return part.split(':'); });
}

bool dtc::isPreset(StringRef text) {
  return llvm::all_of(partsOf(text), [](auto part) {
    return llvm::is_contained(getPresetNames(), part.first) && (part.second.empty() || part.first == hybrid);
  });
}

FailureOr<Annotations> dtc::buildPreset(StringRef text, MeshAttr mesh, ArrayRef<ParamAttr> parameters,
                                        ErrorCallback error) {
  Annotations annotations;
  addData(annotations, mesh);
  auto parts = partsOf(text);
  auto has = [&](StringRef name) { return llvm::any_of(parts, [&](auto part) { return part.first == name; }); };
  if (!has("ddp"))
    addTensor(annotations, mesh, parameters);
  std::vector<std::string> context; // the axes that split the sequence between attentions
  if (has("cp")) {
    addContext(annotations, mesh);
    if (mesh.getAxisSize(contextAxis))
      context.push_back(contextAxis.str());
  }
  if (has("megatron-sp"))
    addSequence(annotations, mesh, context);
  int stage = has("zero3") || has("fsdp") ? 3 : has("zero2") ? 2 : has("zero1") ? 1 : 0;
  std::vector<std::string> alike = context; // the axes whose ranks would hold the same state
  if (mesh.getAxisSize("dp"))
    alike.insert(alike.begin(), "dp");
  if ((stage && alike.empty()) || (has(hybrid) && !mesh.getAxisSize("dp"))) {
    error("preset '" + text + "' splits state over the axis dp, which the mesh lacks; add dp=N to the mesh");
    return failure();
  }
  if (stage)
    addZero(annotations, stage, alike);
  for (auto [name, shards] : parts)
    if (name == hybrid && failed(addHybrid(annotations, shards, mesh, context, error)))
      return failure();
  return annotations;
}
