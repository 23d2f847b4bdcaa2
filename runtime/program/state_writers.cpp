#include "runtime/program/state_writers.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"

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

/// Calls visit(offset, bytes) for what a command writes.
template <typename Visit>
static void forEachWritten(const abi::Manifest &manifest, const abi::Command &command, Visit visit) {
  if (command.has_launch()) { // outputs, and what kernels work in, come last
    const abi::Launch &launch = command.launch();
    int inputs = static_cast<int>(manifest.kernels(static_cast<int>(launch.kernel())).inputs());
    for (int buffer = inputs; buffer < launch.buffers_size(); ++buffer)
      visit(launch.buffers(buffer), launch.buffer_bytes(buffer));
  } else if (command.has_start()) {
    const abi::Collective &call = command.start();
    uint64_t ranks = 1;
    for (const abi::AxisRef &axis : manifest.groups(static_cast<int>(call.group())).axes())
      ranks *= static_cast<uint64_t>(axis.size());
    visit(call.output(), abi::bytesOf(call.type(), abi::outputElements(call, static_cast<int64_t>(ranks))));
  } else if (command.has_recv()) {
    visit(command.recv().buffer(),
          abi::bytesOf(command.recv().type(), static_cast<uint64_t>(command.recv().elements())));
  } else if (command.has_copy()) {
    visit(command.copy().output(),
          abi::bytesOf(command.copy().type(), static_cast<uint64_t>(command.copy().elements())));
  }
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
      forEachWritten(manifest, command, [&](uint64_t offset, uint64_t bytes) {
        if (holdsState(offset, bytes))
          found.insert(list.name());
      });
  return found;
}

} // namespace dtc
