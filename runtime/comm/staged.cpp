#include "runtime/comm/staged.h"

#include "runtime/abi/written.h"

#include <utility>

namespace dtc {

StagedCommunicator::StagedCommunicator(Device &device, Memory &memory, Arena &stage,
                                       std::unique_ptr<Communicator> stages)
    : device(device), memory(memory), stage(stage), stages(std::move(stages)) {
  showWhereabouts(this->stages->whereabouts());
}

CommunicatorCapabilities StagedCommunicator::capabilities() const {
  CommunicatorCapabilities capabilities = stages->capabilities();
  capabilities.deviceMemory = true;
  return capabilities;
}

StagedCommunicator::Operands StagedCommunicator::operandsOf(const Group &group, const abi::Command &command) {
  Operands operands;
  abi::forEachMovedRange(
      command, group.size(), [&](uint64_t offset, uint64_t bytes) { operands.read.push_back({offset, bytes}); },
      [&](uint64_t offset, uint64_t bytes) { operands.written.push_back({offset, bytes}); });
  if (command.start().has_counts()) // rows that do not arrive are copied back unchanged
    operands.read.push_back(operands.written.front());
  return operands;
}

void StagedCommunicator::copyIn(const std::vector<Range> &ranges) {
  for (Range range : ranges)
    if (range.bytes)
      device.read(staged(range), memory.base() + range.offset);
}

void StagedCommunicator::copyOut(const std::vector<Range> &ranges) {
  for (Range range : ranges)
    if (range.bytes)
      device.write(memory.base() + range.offset, staged(range));
}

CommandHandle StagedCommunicator::start(const Group &group, const abi::Command &command) {
  Operands operands = operandsOf(group, command);
  copyIn(operands.read);
  CommandHandle handle = stages->start(group, command);
  std::vector<Range> &written = results[{handle.channel, handle.ticket}]; // parts of one collective share a ticket
  written.insert(written.end(), operands.written.begin(), operands.written.end());
  return handle;
}

CommandTimes StagedCommunicator::wait(const CommandHandle &handle) {
  CommandTimes times = stages->wait(handle);
  if (auto result = results.extract({handle.channel, handle.ticket})) // otherwise another part's wait has copied it
    copyOut(result.mapped());
  return times;
}

CommandTimes StagedCommunicator::run(const Group &group, const abi::Command &command) {
  Operands operands = operandsOf(group, command);
  copyIn(operands.read);
  CommandTimes times = stages->run(group, command);
  copyOut(operands.written);
  return times;
}

} // namespace dtc
