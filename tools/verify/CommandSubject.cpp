#include "tools/verify/CommandSubject.h"

#include "dialect/IR/Names.h"
#include "runtime/abi/roles.h"
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

const abi::Tensor *findTensor(const abi::Role &role, const TensorKey &key) {
  for (const abi::Tensor &tensor : role.tensors())
    if (keyOf(tensor, key.kind == PortKind::Share) == key)
      return &tensor;
  return nullptr;
}

const abi::Tensor *findTensor(const abi::Manifest &manifest, const TensorKey &key) {
  for (const abi::Role &role : manifest.roles())
    if (const abi::Tensor *tensor = findTensor(role, key))
      return tensor;
  return nullptr;
}

const abi::Tensor *CommandSubject::tensorOn(int64_t rank, const TensorKey &key) const {
  return findTensor(abi::roleOf(manifest, rank), key);
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
  std::map<const abi::Tensor *, HostTensors> pieces; // ranks of a role share one
  for (int64_t rank = 0; rank < commands.ranks(); ++rank) {
    const abi::Tensor *tensor = tensorOn(rank, key);
    if (!tensor)
      continue;
    if (const BatchInput *input = findBatchInput(rank, *tensor)) {
      if (!llvm::equal(whole.shape, tensor->global_shape()))
        throw Error(ExitCode::BadInput, "the program's " + key.describe() + " has another shape than the model's");
      commands.write(rank, *tensor, cutBatch(whole, input->slice));
      continue;
    }
    auto [known, isNew] = pieces.try_emplace(tensor);
    if (isNew)
      known->second = cut(key, whole, shardingOf(*tensor), commands.mesh());
    commands.write(rank, *tensor, known->second[rank]);
  }
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
  for (int64_t rank = 0; rank < commands.ranks(); ++rank) {
    const abi::Tensor *own = tensorOn(rank, key);
    if (!own)
      throw Error(ExitCode::BadInput, "the program keeps no " + key.describe() + " on rank " + std::to_string(rank));
    pieces.ofRanks.push_back(commands.read(rank, *own));
  }
  return pieces;
}

std::string CommandSubject::explain(const TensorKey &key) const {
  return findCollectiveBehind(manifest, abi::roleOf(manifest, 0), executed, *tensorOn(0, key));
}

} // namespace dtc::verify
