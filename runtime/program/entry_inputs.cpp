#include "runtime/program/entry_inputs.h"

#include <algorithm>

namespace dtc {

EntryInputs::EntryInputs(Executor &executor)
    : executor(executor), samples(batchInputsOf(executor.manifest(), executor.rank())),
      inputsOf(inputsOfLists(executor.manifest(), executor.role())) {}

const BatchInput *EntryInputs::samplesOf(const abi::Tensor &tensor) const {
  auto found = std::ranges::find(samples, &tensor, &BatchInput::tensor);
  return found == samples.end() ? nullptr : &*found;
}

} // namespace dtc
