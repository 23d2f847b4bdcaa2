// A rank of a conformance test with its memory on a GPU, which is simulated by the stand-in.
#pragma once

#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"
#include "runtime/comm/nccl/nccl.h"
#include "runtime/device/arena.h"
#include "test/gpu/stand_in/find.h"

#include <map>

namespace dtc::test {

/// Ranks that communicate through NCCL, for test bodies that look into an arena of the host's: operands are copied to
/// the GPU before a command starts, and results are copied back when it has been waited for.
class GpuRank final : public Communicator {
public:
  /// `program` has the mesh and the groups.
  GpuRank(Communicator &host, Arena &arena, const abi::Manifest &program, NcclCommunicator::Options options)
      : arena(arena), device(program, "", {host.rank(), host.size(), /*sharesGpu=*/false}, nullptr),
        ranks(host, device, program, std::move(options)) {
    memory = device.allocate(arena.bytes(), arena.sharedBegin());
    ranks.show(*memory);
  }

  int rank() const override { return ranks.rank(); }
  int size() const override { return ranks.size(); }
  CommunicatorCapabilities capabilities() const override { return ranks.capabilities(); }
  CommandHandle start(const Group &group, const abi::Command &command) override {
    auto [input, output] = operandsOf(group, command);
    device.write(memory->base() + input.offset, {arena.base() + input.offset, input.bytes});
    CommandHandle handle = ranks.start(group, command);
    if (finish)
      finish();
    results[handle.ticket] = output;
    return handle;
  }
  CommandTimes wait(const CommandHandle &handle) override {
    CommandTimes times = ranks.wait(handle);
    Place result = results.extract(handle.ticket).mapped();
    device.read({arena.base() + result.offset, result.bytes}, memory->base() + result.offset);
    return times;
  }
  std::vector<int64_t> exchange(int64_t value) override { return ranks.exchange(value); }
  void poison(std::string_view why) noexcept override { ranks.poison(why); }

  /// Of the stand-in: runs the work of other streams before that of the device's own stream.
  dtc_stand_in_finish_fn *finish = nullptr;

private:
  struct Place {
    uint64_t offset, bytes;
  };
  /// What a command reads, and what it writes.
  static std::pair<Place, Place> operandsOf(const Group &group, const abi::Command &command) {
    if (command.has_start()) {
      const abi::Collective &call = command.start();
      return {{call.input(), abi::bytesOf(call.type(), abi::inputElements(call, group.size()))},
              {call.output(), abi::bytesOf(call.type(), abi::outputElements(call, group.size()))}};
    }
    const abi::Transfer &call = abi::transferOf(command);
    Place buffer{call.buffer(), abi::bytesOf(call.type(), call.elements())}, none{call.buffer(), 0};
    return command.has_send() ? std::pair(buffer, none) : std::pair(none, buffer);
  }

  Arena &arena;
  CudaDevice device;
  std::unique_ptr<Memory> memory; // destroyed after those that expose it
  NcclCommunicator ranks;
  std::map<uint64_t, Place> results; ///< by ticket
};

} // namespace dtc::test
