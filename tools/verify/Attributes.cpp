// From the manifest's messages to the dialect's attributes.
#include "dialect/IR/Reductions.h"
#include "dialect/reference/Mesh.h"
#include "tools/verify/CommandInterpreter.h"

#include <bit>

using namespace mlir;
using namespace mlir::dt;

namespace dtc::verify {

MeshAttr toAttribute(const abi::Mesh &mesh, MLIRContext &context) {
  SmallVector<AxisAttr> axes;
  for (const abi::Axis &axis : mesh.axes())
    axes.push_back(AxisAttr::get(&context, StringAttr::get(&context, axis.name()), axis.size()));
  return MeshAttr::get(&context, axes);
}

static AxisRefAttr toAttribute(const abi::AxisRef &ref, const abi::Mesh &mesh, MLIRContext &context) {
  auto name = StringAttr::get(&context, ref.axis());
  for (const abi::Axis &axis : mesh.axes())
    if (axis.name() == ref.axis() && ref.size() == axis.size())
      return AxisRefAttr::whole(name);
  return AxisRefAttr::get(&context, name, ref.pre(), ref.size());
}

static SmallVector<AxisRefAttr> toAttributes(const google::protobuf::RepeatedPtrField<abi::AxisRef> &axes,
                                             const abi::Mesh &mesh, MLIRContext &context) {
  return llvm::map_to_vector(axes, [&](const abi::AxisRef &ref) { return toAttribute(ref, mesh, context); });
}

ShardingAttr toAttribute(const abi::Sharding &sharding, const abi::Mesh &mesh, MLIRContext &context) {
  SmallVector<SmallVector<AxisRefAttr>> dims;
  for (const abi::DimSharding &dim : sharding.dims())
    dims.push_back(toAttributes(dim.axes(), mesh, context));
  SmallVector<ReductionKind> reductions;
  for (int number : sharding.reductions()) {
    const Reduction &reduction = reductionOf(static_cast<abi::Reduction>(number));
    if (!reduction.kind)
      throw ProgramFault("a tensor is partial by " + reduction.name.str() + ", which combines tuples; it has one value");
    reductions.push_back(*reduction.kind);
  }
  return ShardingAttr::get(&context, dims, toAttributes(sharding.partial(), mesh, context), reductions);
}

int64_t valueOf(const abi::Scalar &scalar, const abi::Mesh &mesh, MeshAttr meshAttr, int64_t rank) {
  if (!scalar.has_rank_index())
    return scalar.has_real() ? std::bit_cast<int64_t>(scalar.real()) : scalar.value();
  auto axes = toAttributes(scalar.rank_index().axes(), mesh, *meshAttr.getContext());
  return getIndexIn(meshAttr, rank, axes) * scalar.rank_index().scale();
}

SmallVector<AxisRefAttr>
CommandInterpreter::axesOf(const google::protobuf::RepeatedPtrField<abi::AxisRef> &axes) const {
  return toAttributes(axes, manifest.mesh(), *meshAttr.getContext());
}

} // namespace dtc::verify
