#include "tools/verify/Provenance.h"

#include "runtime/abi/addresses.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/tensors.h"
#include "tools/verify/Collectives.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dtc::verify {

namespace {
struct ByteRange {
  uint64_t begin, end;
  bool overlaps(const ByteRange &other) const { return begin < other.end && other.begin < end; }
};

/// Memory whose origin is sought.
class Sought {
public:
  void add(ByteRange range) { ranges.push_back(range); }
  bool overlaps(const ByteRange &range) const {
    return std::any_of(ranges.begin(), ranges.end(), [&](const ByteRange &each) { return each.overlaps(range); });
  }
  /// A command has written all of this range, so its earlier contents do not matter.
  void remove(const ByteRange &range) {
    std::vector<ByteRange> rest;
    for (const ByteRange &each : ranges) {
      if (!each.overlaps(range)) {
        rest.push_back(each);
        continue;
      }
      if (each.begin < range.begin)
        rest.push_back({each.begin, range.begin});
      if (range.end < each.end)
        rest.push_back({range.end, each.end});
    }
    ranges = rest;
  }

private:
  std::vector<ByteRange> ranges;
};
} // namespace

static ByteRange bufferOf(const abi::Launch &launch, int index) {
  return {launch.buffers(index), launch.buffers(index) + launch.buffer_bytes(index)};
}

static void followLaunch(const abi::Launch &launch, const abi::Kernel &kernel, Sought &sought) {
  bool writes = false;
  for (int i = int(kernel.inputs()); i < launch.buffers_size(); ++i)
    writes |= sought.overlaps(bufferOf(launch, i));
  if (!writes)
    return;
  // Library kernels may accumulate, or write strided views and leave the gaps unchanged.
  if (!kernel.library())
    for (int i = int(kernel.inputs()); i < launch.buffers_size(); ++i)
      sought.remove(bufferOf(launch, i));
  for (int i = 0; i < int(kernel.inputs()); ++i)
    sought.add(bufferOf(launch, i));
}

static void followCopy(const abi::Copy &copy, Sought &sought) {
  uint64_t bytes = abi::bytesOf(copy.type(), copy.elements());
  if (!sought.overlaps({copy.output(), copy.output() + bytes}))
    return;
  sought.remove({copy.output(), copy.output() + bytes});
  sought.add({copy.input(), copy.input() + bytes});
}

std::string findCollectiveBehind(const abi::Manifest &manifest, const abi::Role &role,
                                 const std::vector<std::string> &executed, const abi::Tensor &tensor) {
  uint64_t begin = abi::arenaOffset(role, tensor.address());
  Sought sought;
  sought.add({begin, begin + abi::bytesOf(tensor)});
  std::vector<abi::CommandList> lists = abi::Resolver(manifest, role).all();
  for (auto name = executed.rbegin(); name != executed.rend(); ++name)
    for (const abi::CommandList &list : lists) {
      if (list.name() != *name)
        continue;
      for (int i = list.commands_size() - 1; i >= 0; --i) {
        const abi::Command &command = list.commands(i);
        if (command.has_launch())
          followLaunch(command.launch(), manifest.kernels(command.launch().kernel()), sought);
        if (command.has_copy())
          followCopy(command.copy(), sought);
        if (command.has_recv()) {
          const abi::Transfer &transfer = command.recv();
          if (sought.overlaps(
                  {transfer.buffer(), transfer.buffer() + abi::bytesOf(transfer.type(), transfer.elements())}))
            return "what is behind it is the " + describe(command, manifest) + " at " +
                   abi::locationOf(manifest, command) + " (list '" + list.name() + "', command " + std::to_string(i) +
                   ")";
        }
        if (!command.has_start())
          continue;
        const abi::Collective &call = command.start();
        bool isBehind = false;
        abi::forEachWritten(manifest, command, [&](uint64_t address, uint64_t bytes) {
          isBehind |= sought.overlaps({address, address + bytes});
        });
        if (isBehind)
          return "the collective behind it is the " + describe(call, manifest) + " at " +
                 abi::locationOf(manifest, command) + " (list '" + list.name() + "', command " + std::to_string(i) +
                 ")";
      }
    }
  return "no collective is behind it";
}

} // namespace dtc::verify
