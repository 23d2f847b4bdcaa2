// Emits the manifest: what the other parts of the compiler decided, written down.
#include "passes/schedule/emit/EmitManifest.h"
#include "dialect/IR/Reductions.h"
#include "passes/schedule/emit/EmitCommands.h"
#include "passes/schedule/emit/EmitTimetables.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Sources.h"
#include "passes/analysis/Stages.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

void emitAxis(AxisRefAttr ref, MeshAttr mesh, abi::AxisRef &out) {
  out.set_axis(ref.getAxis().str());
  out.set_pre(ref.getPre());
  out.set_size(ref.getSizeIn(mesh));
}

static void emitSharding(ShardingAttr sharding, MeshAttr mesh, abi::Sharding &out) {
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim) {
    auto *dims = out.add_dims();
    for (AxisRefAttr ref : sharding.getDimAxes(dim))
      emitAxis(ref, mesh, *dims->add_axes());
  }
  for (auto [ref, kind] : llvm::zip_equal(sharding.getPartial(), sharding.getReductions())) {
    emitAxis(ref, mesh, *out.add_partial());
    out.add_reductions(reductionOf(kind).collective);
  }
}

static void emitParameter(ParamAttr param, LayerTable &layers, abi::Parameter &out) {
  out.set_name(param.getName().str());
  if (param.getLayer())
    out.set_layer(layers.indexOf(param.getLayer()));
  auto copy = [](ArrayRef<int64_t> values, auto *field) { field->Assign(values.begin(), values.end()); };
  copy(param.getFileShape(), out.mutable_file_shape());
  copy(param.getFactoredShape(), out.mutable_factored_shape());
  copy(param.getPermutation(), out.mutable_permutation());
  copy(param.getLogicalShape(), out.mutable_logical_shape());
  for (StringAttr name : param.getDimNames())
    out.add_dim_names(name.str());
  StringRef init = param.getInit().getValue();
  out.mutable_init()->set_kind(init == "zeros"  ? abi::Init::ZEROS
                               : init == "ones" ? abi::Init::ONES
                                                : abi::Init::NORMAL);
  out.mutable_init()->set_stddev(param.getStddev().getValueAsDouble());
  out.set_decays(param.getDecays());
  for (StringAttr name : param.getTiedNames())
    out.add_tied_names(name.str());
}

static abi::Tensor::Kind kindOf(PortAttr port) {
  switch (port.getKind()) {
  case PortKind::Parameter:
    return abi::Tensor::PARAMETER;
  case PortKind::Slot:
    return abi::Tensor::SLOT;
  case PortKind::Copy:
    return abi::Tensor::COPY;
  case PortKind::Cache:
    return abi::Tensor::CACHE;
  case PortKind::Gradient:
    return abi::Tensor::GRADIENT;
  case PortKind::ReducedGradient:
    return abi::Tensor::REDUCED_GRADIENT;
  case PortKind::Input:
    return abi::Tensor::INPUT;
  case PortKind::Output:
  case PortKind::Share:
    return abi::Tensor::OUTPUT;
  case PortKind::Kept:
  case PortKind::Stash:
  case PortKind::WeightStash:
  case PortKind::GradientStash:
  case PortKind::Sent:
  case PortKind::Received:
  case PortKind::SentGradient:
  case PortKind::ReceivedGradient:
    break; // hosts do not know these
  }
  llvm_unreachable("all kinds are covered");
}

static void emitTensors(const ArenaLayout &arena, MeshAttr mesh, const abi::Manifest &manifest, abi::Role &role) {
  llvm::StringMap<int> indexOf;
  for (auto [index, parameter] : llvm::enumerate(manifest.parameters()))
    indexOf[parameter.name()] = index;
  for (const PlacedTensor &tensor : arena.tensors()) {
    if (tensor.port.isOfMicroBatch() || tensor.port.getKind() == PortKind::Kept)
      continue;
    abi::Tensor &out = *role.add_tensors();
    out.set_name(tensor.port.getName().str());
    out.set_kind(kindOf(tensor.port));
    out.set_slot(tensor.port.getSlot().str());
    if (tensor.port.getKind() == PortKind::Input)
      *out.mutable_source() = abiSourceOf(tensor.port.getSource());
    auto parameter = indexOf.find(tensor.port.getName());
    out.set_parameter(parameter == indexOf.end() ? -1 : parameter->second);
    out.set_type(elementTypeOf(tensor.localType).type);
    // A module that was not placed is whole everywhere.
    RankedTensorType whole = tensor.port.getWhole() ? tensor.port.getWhole() : tensor.localType;
    ShardingAttr stored = tensor.port.getStored();
    if (!stored)
      stored = ShardingAttr::replicated(mesh.getContext(), whole.getRank());
    auto global = whole.getShape(), local = tensor.localType.getShape();
    out.mutable_global_shape()->Assign(global.begin(), global.end());
    out.mutable_local_shape()->Assign(local.begin(), local.end());
    emitSharding(stored, mesh, *out.mutable_sharding());
    out.set_address(arena.spaceAddress(tensor.offset));
  }
}

/// Spaces have one place and no room, except those for which the arena says more.
static void emitSpaces(const ArenaLayout &arena, bool isCut, abi::Role &role) {
  uint32_t count = arena.hostBytes() > 0 ? numSpaces : isCut ? hostSpace : stashSpace;
  for (uint32_t number = 0; number < count; ++number) {
    bool isPeers = isShared(static_cast<Space>(number));
    abi::Space &space = *role.add_spaces();
    space.set_name(spaceNames[number].str());
    space.set_category(spaceCategories[number].str());
    space.set_kind(isPeers ? abi::Space::REGISTERED : abi::Space::PRIVATE);
    space.set_base(isPeers ? arena.sharedBegin() : 0);
    space.set_places(1);
  }
  role.mutable_spaces(privateSpace)->set_stride(arena.privateSpaceEnd());
  role.mutable_spaces(registeredSpace)->set_stride(arena.registeredSpaceEnd() - arena.sharedBegin());
  if (arena.hostBytes() > 0) {
    abi::Space &host = *role.mutable_spaces(hostSpace);
    host.set_kind(abi::Space::HOST);
    host.set_stride(arena.hostBytes());
  }
  for (const PlacedSpace &placed : arena.spaces()) {
    abi::Space &space = *role.mutable_spaces(static_cast<int>(placed.number));
    space.set_base(placed.base);
    space.set_stride(placed.stride);
    space.set_places(placed.places);
  }
}

/// The ranks of a role: those of its number along the pipeline's axis.
static void emitRanks(MeshAttr mesh, int64_t number, abi::Role &role) {
  int64_t outer = 1, length = mesh.getAxisSize(pipelineAxis), inner = 1;
  for (bool isBehind = false; AxisAttr axis : mesh.getAxes()) {
    if (axis.getName() == pipelineAxis)
      isBehind = true;
    else
      (isBehind ? inner : outer) *= axis.getSize();
  }
  bool inRows = inner <= outer; // fewer ranges
  for (int64_t i = 0; i < std::min(inner, outer); ++i) {
    abi::RankRange &range = *role.add_ranks();
    range.set_first(static_cast<uint32_t>(inRows ? number * inner + i : i * length * inner + number * inner));
    range.set_count(static_cast<uint32_t>(inRows ? outer : inner));
    range.set_stride(static_cast<uint32_t>(inRows ? length * inner : 1));
  }
}

static LogicalResult emitRole(ModuleOp module, MeshAttr mesh, int64_t number, ArrayRef<func::FuncOp> functions,
                              const Duties &duties, CommandEmitter &commands, abi::Manifest &manifest) {
  FailureOr<ArenaLayout> arena = ArenaLayout::read(module, number, functions);
  if (failed(arena))
    return failure();
  bool isCut = rolesOf(module) > 1;
  abi::Role &role = *manifest.add_roles();
  role.set_name(nameOfRole(module, number));
  if (isCut)
    emitRanks(mesh, number, role);
  role.set_arena_bytes(arena->bytes());
  role.set_shared_begin(arena->sharedBegin());
  role.set_host_bytes(arena->hostBytes());
  role.set_unit(static_cast<uint32_t>(arena->alignment()));
  emitSpaces(*arena, isCut, role);
  emitTensors(*arena, mesh, manifest, role);
  for (auto [category, bytes] : arena->memoryUse()) {
    auto *use = role.add_memory();
    use->set_category(category);
    use->set_bytes(bytes);
  }
  FailureOr<llvm::StringMap<std::string>> lists = commands.emit(functions, *arena);
  if (failed(lists))
    return failure();
  emitTimetables(module, number, duties, *lists, role);
  return success();
}

abi::Mesh emitMesh(MeshAttr mesh) {
  abi::Mesh out;
  for (AxisAttr axis : mesh.getAxes()) {
    abi::Axis &added = *out.add_axes();
    added.set_name(axis.getName().str());
    added.set_size(axis.getSize());
  }
  return out;
}

LogicalResult emitManifest(ModuleOp module, abi::Manifest &manifest) {
  auto mesh = module->getAttrOfType<MeshAttr>(module_attr::mesh);
  *manifest.mutable_mesh() = emitMesh(mesh);
  if (auto model = module->getAttrOfType<StringAttr>(module_attr::model))
    manifest.set_model_name(model.str());
  if (auto symbols = module->getAttrOfType<DictionaryAttr>(module_attr::symbols))
    for (NamedAttribute symbol : symbols) {
      auto *out = manifest.add_symbols();
      out->set_name(symbol.getName().str());
      out->set_size(cast<IntegerAttr>(symbol.getValue()).getInt());
    }
  for (int64_t stage = 0; stage < stagesOf(module); ++stage)
    manifest.add_stages();
  LayerTable layers(manifest);
  if (auto parameters = module->getAttrOfType<ArrayAttr>(module_attr::parameters))
    for (Attribute parameter : parameters)
      emitParameter(cast<ParamAttr>(parameter), layers, *manifest.add_parameters());

  CommandEmitter commands(module, layers, manifest);
  Duties duties = dutiesIn(module);
  for (auto [number, functions] : llvm::enumerate(functionsOfRoles(module)))
    if (failed(emitRole(module, mesh, static_cast<int64_t>(number), functions, duties, commands, manifest)))
      return failure();
  return success();
}

} // namespace dtc
