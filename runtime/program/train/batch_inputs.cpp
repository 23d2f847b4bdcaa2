#include "runtime/program/train/batch_inputs.h"

#include "runtime/abi/roles.h"
#include "runtime/abi/sources.h"
#include "runtime/executor/shard.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <fmt/format.h>

namespace dtc {

static SamplePart partOf(const abi::Source &source) {
  return source.kind() == abi::Source::TOKENS            ? SamplePart::Tokens
         : source.kind() == abi::Source::DOCUMENT_STARTS ? SamplePart::DocumentStarts
                                                         : SamplePart::Targets;
}

static BatchInput describe(const abi::Tensor &tensor, const Mesh &mesh, int rank) {
  if (tensor.global_shape_size() != 2)
    throw Error(ExitCode::BadInput,
                fmt::format("damaged program: its input '{}' does not have rows and columns", tensor.name()));
  Shard shard = shardOf(tensor, mesh, rank);
  return {&tensor,
          partOf(tensor.source()),
          {shard.begin[0], shard.size[0], shard.begin[1], shard.size[1], tensor.local_shape(0), tensor.local_shape(1)}};
}

std::vector<BatchInput> batchInputsOf(const abi::Manifest &manifest, int rank) {
  Mesh mesh(manifest.mesh());
  std::vector<BatchInput> inputs;
  for (const abi::Tensor &tensor : abi::roleOf(manifest, rank).tensors())
    if (abi::isOfSamples(tensor))
      inputs.push_back(describe(tensor, mesh, rank));
  if (manifest.has_generation()) // whose functions read different numbers of positions
    return inputs;
  for (const BatchInput &input : inputs) {
    const abi::Tensor &first = *inputs.front().tensor, &other = *input.tensor;
    if (!std::equal(other.global_shape().begin(), other.global_shape().end(), first.global_shape().begin()))
      throw Error(ExitCode::BadInput, fmt::format("damaged program: its input '{}' is {} x {}, but '{}' is {} x {}",
                                                  other.name(), other.global_shape(0), other.global_shape(1),
                                                  first.name(), first.global_shape(0), first.global_shape(1)));
  }
  return inputs;
}

} // namespace dtc
