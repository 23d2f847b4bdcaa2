#include "runtime/checkpoint/file_layout.h"

#include "runtime/abi/tensors.h"
#include "runtime/support/error.h"
#include "runtime/support/product.h"

#include <algorithm>
#include <fmt/format.h>

namespace dtc {

StateTensor stateTensor(const abi::Manifest &manifest, const abi::Tensor &tensor, const Mesh &mesh, int rank) {
  auto refuse = [&](const char *why) {
    throw Error(ExitCode::BadInput, fmt::format("damaged program: state '{}' {}", tensor.name(), why));
  };
  if (tensor.parameter() < 0 || tensor.parameter() >= manifest.parameters_size())
    refuse("belongs to no parameter");
  const abi::Parameter &parameter = manifest.parameters(tensor.parameter());
  if (tensor.type() != abi::F32 && !manifest.has_generation())
    refuse("does not hold f32, which optimizers compute in");
  if (!std::ranges::equal(parameter.logical_shape(), tensor.global_shape()))
    refuse("has another shape than its parameter");
  int dims = parameter.logical_shape_size();
  if (parameter.factored_shape_size() != dims || parameter.permutation_size() != dims ||
      productOf(parameter.file_shape()) != productOf(parameter.factored_shape()))
    refuse("has no bijection to the model file's shape");

  std::vector<int64_t> factoredStrides(dims, 1);
  for (int dim = dims - 2; dim >= 0; --dim)
    factoredStrides[dim] = factoredStrides[dim + 1] * parameter.factored_shape(dim + 1);
  StateTensor state{&tensor, &parameter, shardOf(tensor, mesh, rank), std::vector<int64_t>(dims), {}, {}};
  state.fileOrder.assign(dims, -1);
  for (int dim = 0; dim < dims; ++dim) {
    int64_t from = parameter.permutation(dim);
    if (from < 0 || from >= dims || state.fileOrder[from] >= 0 ||
        parameter.factored_shape(from) != parameter.logical_shape(dim))
      refuse("has a permutation that is none");
    state.fileOrder[from] = dim;
    state.fileStrides.push_back(factoredStrides[from]);
  }
  return state;
}

int64_t FileBox::elements() const { return productOf(size); }

int64_t StateTensor::localElements() const { return abi::elementsOf(*tensor); }

FileBox StateTensor::box() const {
  FileBox box;
  for (int64_t dim : fileOrder) {
    box.begin.push_back(shard.begin[dim]);
    box.size.push_back(shard.size[dim]);
    box.whole.push_back(tensor->global_shape(static_cast<int>(dim)));
  }
  return box;
}

std::vector<int64_t> StateTensor::packedSteps() const {
  std::vector<int64_t> steps(fileOrder.size());
  int64_t step = 1;
  for (size_t place = fileOrder.size(); place-- > 0; step *= shard.size[fileOrder[place]])
    steps[fileOrder[place]] = step;
  return steps;
}

} // namespace dtc
