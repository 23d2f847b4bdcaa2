// Emits the manifest: what the other parts of the compiler decided, written down.
#include "passes/schedule/EmitManifest.h"
#include "dialect/IR/Reductions.h"
#include "passes/schedule/EmitCommands.h"
#include "passes/schedule/EmitTimetables.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Names.h"

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
  for (AxisRefAttr ref : sharding.getPartial())
    emitAxis(ref, mesh, *out.add_partial());
  out.set_reduction(reductionOf(sharding.getReduction()).collective);
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
}

static abi::Tensor::Role roleOf(PortAttr port) {
  switch (port.getKind()) {
  case PortKind::Parameter:
    return abi::Tensor::PARAMETER;
  case PortKind::Slot:
    return abi::Tensor::SLOT;
  case PortKind::Copy:
    return abi::Tensor::COPY;
  case PortKind::Gradient:
    return abi::Tensor::GRADIENT;
  case PortKind::ReducedGradient:
    return abi::Tensor::REDUCED_GRADIENT;
  case PortKind::Input:
    return abi::Tensor::INPUT;
  case PortKind::Output:
  case PortKind::Share:
    return abi::Tensor::OUTPUT;
  }
  llvm_unreachable("all kinds are covered");
}

static void emitTensors(const ArenaLayout &arena, MeshAttr mesh, const abi::Manifest &manifest, abi::Role &role) {
  llvm::StringMap<int> indexOf;
  for (auto [index, parameter] : llvm::enumerate(manifest.parameters()))
    indexOf[parameter.name()] = index;
  for (const PlacedTensor &tensor : arena.tensors()) {
    abi::Tensor &out = *role.add_tensors();
    out.set_name(tensor.port.getName().str());
    out.set_role(roleOf(tensor.port));
    out.set_slot(tensor.port.getSlot().str());
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

static void emitSpace(StringRef name, abi::Space::Kind kind, uint64_t begin, uint64_t end, abi::Role &role) {
  abi::Space &space = *role.add_spaces();
  space.set_name(name.str());
  space.set_kind(kind);
  space.set_base(begin);
  space.set_stride(end - begin);
  space.set_places(1);
}

LogicalResult emitManifest(ModuleOp module, ArenaLayout &arena, int64_t accumulation, abi::Manifest &manifest) {
  auto mesh = module->getAttrOfType<MeshAttr>(module_attr::mesh);
  for (AxisAttr axis : mesh.getAxes()) {
    auto *out = manifest.mutable_mesh()->add_axes();
    out->set_name(axis.getName().str());
    out->set_size(axis.getSize());
  }
  if (auto model = module->getAttrOfType<StringAttr>(module_attr::model))
    manifest.set_model_name(model.str());
  if (auto symbols = module->getAttrOfType<DictionaryAttr>(module_attr::symbols))
    for (NamedAttribute symbol : symbols) {
      auto *out = manifest.add_symbols();
      out->set_name(symbol.getName().str());
      out->set_size(cast<IntegerAttr>(symbol.getValue()).getInt());
    }
  manifest.add_stages(); // the whole model
  LayerTable layers(manifest);
  if (auto parameters = module->getAttrOfType<ArrayAttr>(module_attr::parameters))
    for (Attribute parameter : parameters)
      emitParameter(cast<ParamAttr>(parameter), layers, *manifest.add_parameters());

  abi::Role &role = *manifest.add_roles();
  role.set_name("all");
  role.set_arena_bytes(arena.bytes());
  role.set_shared_begin(arena.sharedBegin());
  emitSpace("private", abi::Space::PRIVATE, 0, arena.sharedBegin(), role);
  emitSpace("registered", abi::Space::REGISTERED, arena.sharedBegin(), arena.bytes(), role);
  emitTensors(arena, mesh, manifest, role);
  for (auto [category, bytes] : arena.memoryUse()) {
    auto *use = role.add_memory();
    use->set_category(category);
    use->set_bytes(bytes);
  }
  emitTimetables(module, accumulation, role);
  return CommandEmitter(module, arena, layers, manifest).emit();
}

} // namespace dtc
