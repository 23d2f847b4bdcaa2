// Ranks whose memory the host cannot reach: what they exchange passes through memory of the host.
//
// Each rank has a stage, an arena of the host's with the same offsets, which is what its peers see. An operand is
// copied onto it when its command starts, after all that the device was given before, and the result off it when it is
// waited for. Only pages that commands use are ever touched.
//
// The device waits while the host copies: a transport that reads a device's memory itself is faster. This one needs
// nothing but Device::read and Device::write, and so works on every device, and for many ranks on one.
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
  /// `stages` joins all ranks' stages, of which `stage` is this one's: it has as many bytes as `memory`, shared from
  /// the same offset. All but `stages` outlive it.
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
  std::map<std::pair<uint32_t, uint64_t>, std::vector<Range>> results; ///< of what is under way, by channel and ticket
};

} // namespace dtc
