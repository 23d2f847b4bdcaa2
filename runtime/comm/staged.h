// Ranks whose memory the host cannot access: their data passes through host memory.
//
// Each rank has a stage, an arena in host memory with the same offsets, which is what its peers see. An operand is
// copied to the stage when its command starts, after all work queued on the device before; the result is copied back by
// the wait. Only pages that commands use are ever touched.
//
// The device waits while the host copies: a transport that reads device memory directly is faster. This one needs only
// Device::read and Device::write, so it works on every device, and for many ranks on one device.
#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/device/arena.h"
#include "runtime/device/device.h"

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace dtc {

class StagedCommunicator final : public Communicator {
public:
  /// `stages` connects all ranks' stages. `stage` is this rank's: it has as many bytes as `memory` and is shared from
  /// the same offset. All arguments but `stages` outlive it.
  StagedCommunicator(Device &device, Memory &memory, Arena &stage, std::unique_ptr<Communicator> stages);

  int rank() const override { return stages->rank(); }
  int size() const override { return stages->size(); }
  CommunicatorCapabilities capabilities() const override;
  CommandHandle start(const Group &group, const abi::Command &command) override;
  void handOver() override { stages->handOver(); }
  CommandTimes wait(const CommandHandle &handle) override;
  CommandTimes run(const Group &group, const abi::Command &command) override;
  std::vector<int64_t> exchange(int64_t value) override { return stages->exchange(value); }
  void checkPeers() override { stages->checkPeers(); }
  const ControlBlock *meetingPlace() const override { return stages->meetingPlace(); }
  void poison(std::string_view why) noexcept override { stages->poison(why); }

private:
  /// Part of the arena.
  struct Range {
    uint64_t offset, bytes;
  };
  struct Operands {
    std::vector<Range> read, written;
  };
  static Operands operandsOf(const Group &group, const abi::Command &command);
  void copyIn(const std::vector<Range> &ranges);
  void copyOut(const std::vector<Range> &ranges);
  std::span<std::byte> staged(Range range) { return {stage.base() + range.offset, range.bytes}; }

  Device &device;
  Memory &memory;
  Arena &stage;
  std::unique_ptr<Communicator> stages;
  std::map<std::pair<uint32_t, uint64_t>, std::vector<Range>> results; ///< of commands in progress, by channel and
                                                                       ///< ticket
};

} // namespace dtc
