#include "runtime/program/entry_inputs.h"

#include "runtime/abi/tensors.h"

#include <algorithm>
#include <set>

namespace dtc {

EntryInputs::EntryInputs(Executor &executor)
    : executor(executor), samples(batchInputsOf(executor.manifest(), executor.rank())) {
  findInputs();
}

void EntryInputs::findInputs() {
  abi::TensorPlaces places;
  for (const abi::Tensor &tensor : executor.role().tensors())
    if (tensor.role() == abi::Tensor::INPUT)
      places.add(tensor);
  places.sort();
  for (const abi::CommandList &list : executor.manifest().lists()) {
    std::set<const abi::Tensor *> read;
    places.forEachReadBy(list, executor.manifest(), [&](const abi::Tensor &tensor) { read.insert(&tensor); });
    inputsOf[list.name()].assign(read.begin(), read.end());
  }
}

const BatchInput *EntryInputs::samplesOf(const abi::Tensor &tensor) const {
  auto found = std::ranges::find(samples, &tensor, &BatchInput::tensor);
  return found == samples.end() ? nullptr : &*found;
}

} // namespace dtc
