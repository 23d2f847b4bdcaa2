// Which inputs each command list reads.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/abi/tensors.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace dtc {

using ListInputs = std::map<std::string, std::vector<const abi::Tensor *>, std::less<>>;

/// The inputs of a role's lists, by name. Both arguments outlive the result.
inline ListInputs inputsOfLists(const abi::Manifest &manifest, const abi::Role &role) {
  abi::TensorPlaces places;
  for (const abi::Tensor &tensor : role.tensors())
    if (tensor.kind() == abi::Tensor::INPUT)
      places.add(tensor);
  places.sort();
  ListInputs inputs;
  for (const abi::CommandList &list : manifest.lists()) {
    std::set<const abi::Tensor *> read;
    places.forEachReadBy(list, manifest, [&](const abi::Tensor &tensor) { read.insert(&tensor); });
    inputs[list.name()].assign(read.begin(), read.end());
  }
  return inputs;
}

} // namespace dtc
