#include "tools/verify/CommandSubject.h"

#include "dialect/IR/Names.h"
#include "tools/verify/Provenance.h"

using namespace mlir::dt;

namespace dtc::verify {

static TensorKey keyOf(const abi::Tensor &tensor, bool isShare) {
  switch (tensor.role()) {
  case abi::Tensor::PARAMETER:
    return {PortKind::Parameter, tensor.name(), ""};
  case abi::Tensor::SLOT:
    return {PortKind::Slot, tensor.name(), tensor.slot()};
  case abi::Tensor::COPY:
    return {PortKind::Copy, tensor.name(), ""};
  case abi::Tensor::GRADIENT:
    return {PortKind::Gradient, tensor.name(), ""};
  case abi::Tensor::REDUCED_GRADIENT:
    return {PortKind::ReducedGradient, tensor.name(), ""};
  case abi::Tensor::INPUT:
    return {PortKind::Input, tensor.name(), ""};
  default: // the manifest does not tell outputs and shares apart
    return {isShare ? PortKind::Share : PortKind::Output, tensor.name(), ""};
  }
}

const abi::Tensor *findTensor(const abi::Manifest &manifest, const TensorKey &key) {
  for (const abi::Tensor &tensor : manifest.tensors())
    if (keyOf(tensor, key.kind == PortKind::Share) == key)
      return &tensor;
  return nullptr;
}

CommandSubject::CommandSubject(const abi::Manifest &manifest, mlir::MLIRContext &context)
    : manifest(manifest), commands(manifest, context) {
  for (int64_t rank = 0; rank < commands.ranks(); ++rank)
    batchInputs.push_back(batchInputsOf(manifest, static_cast<int>(rank)));
}

const BatchInput *CommandSubject::findBatchInput(int64_t rank, const abi::Tensor &tensor) const {
  for (const BatchInput &input : batchInputs[rank])
    if (input.tensor == &tensor)
      return &input;
  return nullptr;
}

/// What the runtime's step writes for a slice of the batch.
static HostTensor cutBatch(const HostTensor &whole, const BatchSlice &slice) {
  HostTensor piece({slice.localRows, slice.localColumns}, poisonValue);
  for (int64_t row = 0; row < slice.rows; ++row)
    for (int64_t column = 0; column < slice.columns; ++column)
      piece[row * slice.localColumns + column] =
          whole[(slice.firstRow + row) * whole.shape[1] + slice.firstColumn + column];
  return piece;
}

ShardingAttr CommandSubject::shardingOf(const abi::Tensor &tensor) const {
  abi::Sharding sharding = tensor.sharding();
  while (sharding.dims_size() < tensor.global_shape_size()) // those that are not mentioned are whole
    sharding.add_dims();
  return toAttribute(sharding, manifest.mesh(), *commands.mesh().getContext());
}

void CommandSubject::provide(const TensorKey &key, const HostTensor &whole) {
  const abi::Tensor *tensor = findTensor(manifest, key);
  if (!tensor)
    return;
  if (findBatchInput(0, *tensor)) {
    if (!llvm::equal(whole.shape, tensor->global_shape()))
      throw Error(ExitCode::BadInput, "the program's " + key.describe() + " has another shape than the model's");
    for (int64_t rank = 0; rank < commands.ranks(); ++rank)
      commands.write(rank, *tensor, cutBatch(whole, findBatchInput(rank, *tensor)->slice));
    return;
  }
  HostTensors pieces = cut(key, whole, shardingOf(*tensor), commands.mesh());
  for (int64_t rank = 0; rank < commands.ranks(); ++rank)
    commands.write(rank, *tensor, pieces[rank]);
}

void CommandSubject::run(const std::string &list) {
  executed.push_back(list);
  commands.run(list);
}

Pieces CommandSubject::read(const TensorKey &key) const {
  const abi::Tensor *tensor = findTensor(manifest, key);
  if (!tensor)
    throw Error(ExitCode::BadInput, "the program keeps no " + key.describe());
  Pieces pieces{{}, shardingOf(*tensor), commands.mesh()};
  for (int64_t rank = 0; rank < commands.ranks(); ++rank)
    pieces.ofRanks.push_back(commands.read(rank, *tensor));
  return pieces;
}

std::string CommandSubject::explain(const TensorKey &key) const {
  return findCollectiveBehind(manifest, executed, *findTensor(manifest, key));
}

} // namespace dtc::verify
