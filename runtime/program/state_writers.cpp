#include "runtime/program/state_writers.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/written.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dtc {

namespace {
struct Range {
  uint64_t begin, end;
};
} // namespace

/// Where the state lies, in order of addresses.
static std::vector<Range> stateOf(const abi::Manifest &manifest) {
  std::vector<Range> ranges;
  for (const abi::Tensor &tensor : manifest.tensors())
    if (tensor.role() == abi::Tensor::PARAMETER || tensor.role() == abi::Tensor::SLOT) {
      uint64_t elements = 1;
      for (int64_t size : tensor.local_shape())
        elements *= static_cast<uint64_t>(size);
      ranges.push_back({tensor.offset(), tensor.offset() + abi::bytesOf(tensor.type(), elements)});
    }
  std::ranges::sort(ranges, {}, &Range::begin);
  return ranges;
}

std::set<std::string> listsThatWriteState(const abi::Manifest &manifest, const abi::Role &role) {
  std::vector<Range> state = stateOf(manifest);
  auto holdsState = [&](uint64_t offset, uint64_t bytes) { // state does not overlap itself
    auto after = std::ranges::upper_bound(state, offset, {}, &Range::end);
    return after != state.end() && after->begin < offset + bytes;
  };
  std::set<std::string> found;
  for (const abi::CommandList &list : role.lists())
    for (const abi::Command &command : list.commands())
      abi::forEachWritten(manifest, command, [&](uint64_t offset, uint64_t bytes) {
        if (holdsState(offset, bytes))
          found.insert(list.name());
      });
  return found;
}

} // namespace dtc
