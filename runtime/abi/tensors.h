// The named tensors of a role, and which of them commands write.
#pragma once

#include "runtime/abi/element_type.h"
#include "runtime/abi/written.h"
#include "runtime/support/product.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dtc::abi {

/// That a rank stores, padding included.
inline int64_t elementsOf(const Tensor &tensor) { return productOf(tensor.local_shape()); }
inline uint64_t bytesOf(const Tensor &tensor) {
  return bytesOf(tensor.type(), static_cast<uint64_t>(elementsOf(tensor)));
}

/// Whether training changes it and checkpoints keep it.
inline bool isState(const Tensor &tensor) {
  return tensor.kind() == Tensor::PARAMETER || tensor.kind() == Tensor::SLOT;
}

/// Whether it is a parameter in another type, for computing.
inline bool isCopy(const Tensor &tensor) { return tensor.kind() == Tensor::COPY; }

/// Whether it lives from step to step.
inline bool isKept(const Tensor &tensor) { return isState(tensor) || isCopy(tensor); }

/// Whether it belongs to a parameter and has the parameter's shape.
inline bool isOfParameter(const Tensor &tensor) {
  return isKept(tensor) || tensor.kind() == Tensor::GRADIENT || tensor.kind() == Tensor::REDUCED_GRADIENT;
}

/// Where tensors are in memory, in the order of their addresses. They do not overlap.
class TensorPlaces {
public:
  void add(const Tensor &tensor) { places.push_back({tensor.address(), tensor.address() + bytesOf(tensor), &tensor}); }
  void sort() { std::ranges::sort(places, {}, &Place::begin); }

  /// Calls visit(tensor) for each tensor that a list writes, even in part; perhaps several times.
  template <typename Visit>
  void forEachWrittenBy(const CommandList &list, const Manifest &manifest, Visit visit) const {
    for (const Command &command : list.commands())
      forEachWritten(manifest, command, [&](uint64_t address, uint64_t bytes) { forEachIn(address, bytes, visit); });
  }
  /// Likewise for each tensor that it reads.
  template <typename Visit> void forEachReadBy(const CommandList &list, const Manifest &manifest, Visit visit) const {
    for (const Command &command : list.commands())
      forEachRead(manifest, command, [&](uint64_t address, uint64_t bytes) { forEachIn(address, bytes, visit); });
  }

private:
  template <typename Visit> void forEachIn(uint64_t address, uint64_t bytes, Visit visit) const {
    auto place = std::ranges::upper_bound(places, address, {}, &Place::end);
    for (; place != places.end() && place->begin < address + bytes; ++place)
      visit(*place->tensor);
  }

  struct Place {
    uint64_t begin, end;
    const Tensor *tensor;
  };
  std::vector<Place> places;
};

} // namespace dtc::abi
