#include "runtime/program/train/state_writers.h"

#include "runtime/abi/tensors.h"

namespace dtc {

std::set<std::string> listsThatWriteState(const abi::Manifest &manifest, const abi::Role &role) {
  abi::TensorPlaces state;
  for (const abi::Tensor &tensor : role.tensors())
    if (abi::isState(tensor))
      state.add(tensor);
  state.sort();
  std::set<std::string> found;
  for (const abi::CommandList &list : manifest.lists())
    state.forEachWrittenBy(list, manifest, [&](const abi::Tensor &) { found.insert(list.name()); });
  return found;
}

} // namespace dtc
