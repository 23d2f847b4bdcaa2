// A rank of a conformance test with its memory on a GPU, which is the stand-in.
#pragma once

#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"
#include "runtime/comm/nccl/nccl.h"
#include "runtime/device/arena.h"
#include "test/gpu/stand_in/find.h"

#include <map>

namespace dtc::test {

/// Ranks that exchange through NCCL, for bodies that look into an arena of the host's: operands are copied to the GPU
/// before a command starts, and results back when it has been waited for.
class GpuRank final : public Communicator {
public:
  /// `program` has the mesh and the groups.
  GpuRank(Communicator &host, Arena &arena, const abi::Manifest &program, NcclCommunicator::Options options)
      : arena(arena), device(program, "", {host.rank(), host.size(), /*sharesGpu=*/true}),
        ranks(host, device, program, std::move(options)) {
    memory = device.allocate(arena.bytes(), arena.sharedBegin());
    ranks.show(*memory);
  }

  int rank() const override { return ranks.rank(); }
  int size() const override { return ranks.size(); }
  CommunicatorCapabilities capabilities() const override { return ranks.capabilities(); }
  CommandHandle start(const Group &group, const abi::Command &command) override {
    const abi::Collective &call = command.start();
    uint64_t bytes = abi::bytesOf(call.type(), abi::inputElements(call, group.size()));
    device.write(memory->base() + call.input(), {arena.base() + call.input(), bytes});
    CommandHandle handle = ranks.start(group, command);
    if (finish)
      finish();
    results[handle.ticket] = {call.output(), abi::bytesOf(call.type(), abi::outputElements(call, group.size()))};
    return handle;
  }
  CommandTimes wait(const CommandHandle &handle) override {
    CommandTimes times = ranks.wait(handle);
    auto [offset, bytes] = results.extract(handle.ticket).mapped();
    device.read({arena.base() + offset, bytes}, memory->base() + offset);
    return times;
  }
  std::vector<int64_t> exchange(int64_t value) override { return ranks.exchange(value); }
  void poison(std::string_view why) noexcept override { ranks.poison(why); }

  /// The stand-in's: does what was given to other streams before what was given to the device's.
  dtc_stand_in_finish_fn *finish = nullptr;

private:
  Arena &arena;
  CudaDevice device;
  std::unique_ptr<Memory> memory; // goes after those who show it
  NcclCommunicator ranks;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> results; ///< offsets and bytes, by ticket
};

} // namespace dtc::test
