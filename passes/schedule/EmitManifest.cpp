// Emits the manifest: what the other parts of the compiler decided, written down.
#include "passes/schedule/EmitManifest.h"
#include "dialect/IR/Reductions.h"
#include "passes/schedule/EmitCommands.h"

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

static void emitTensors(const ArenaLayout &arena, MeshAttr mesh, abi::Manifest &manifest) {
  llvm::StringMap<int> indexOf;
  for (auto [index, parameter] : llvm::enumerate(manifest.parameters()))
    indexOf[parameter.name()] = index;
  for (const PlacedTensor &tensor : arena.tensors()) {
    abi::Tensor &out = *manifest.add_tensors();
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
    out.set_offset(tensor.offset);
  }
}

/// One step: the micro-batches, of which the last reduces what they summed, and the update. One evaluation is one
/// micro-batch. Where parameters have copies, these are made anew when the host has written parameters.
static void emitTimetables(ModuleOp module, int64_t accumulation, abi::Role &role) {
  for (int64_t micro = 0; micro < accumulation; ++micro) {
    auto *entry = role.add_step();
    entry->set_list((micro + 1 == accumulation ? function::microLast
                     : micro == 0              ? function::micro
                                               : function::microNext)
                        .str());
    entry->set_micro_batch(micro);
  }
  role.add_step()->set_list(function::update.str());
  auto *evaluation = role.add_evaluation();
  evaluation->set_list(function::eval.str());
  evaluation->set_micro_batch(0);
  if (module.lookupSymbol(function::refresh))
    role.add_refresh()->set_list(function::refresh.str());
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
  LayerTable layers(manifest);
  if (auto parameters = module->getAttrOfType<ArrayAttr>(module_attr::parameters))
    for (Attribute parameter : parameters)
      emitParameter(cast<ParamAttr>(parameter), layers, *manifest.add_parameters());
  emitTensors(arena, mesh, manifest);

  abi::Role &role = *manifest.add_roles();
  role.set_name("all");
  role.set_arena_bytes(arena.bytes());
  role.set_shared_begin(arena.sharedBegin());
  for (auto [category, bytes] : arena.memoryUse()) {
    auto *use = role.add_memory();
    use->set_category(category);
    use->set_bytes(bytes);
  }
  emitTimetables(module, accumulation, role);
  return CommandEmitter(module, arena, layers, manifest).emit(role);
}

} // namespace dtc
