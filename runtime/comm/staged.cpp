#include "runtime/comm/staged.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"

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

StagedCommunicator::Range StagedCommunicator::inputOf(const Group &group, const abi::Command &command) {
  if (command.has_start()) {
    const abi::Collective &collective = command.start();
    return {collective.input(), abi::bytesOf(collective.type(), abi::inputElements(collective, group.size()))};
  }
  if (command.has_send())
    return {command.send().buffer(), abi::bytesOf(command.send().type(), command.send().elements())};
  return {};
}

StagedCommunicator::Range StagedCommunicator::outputOf(const Group &group, const abi::Command &command) {
  if (command.has_start()) {
    const abi::Collective &collective = command.start();
    return {collective.output(), abi::bytesOf(collective.type(), abi::outputElements(collective, group.size()))};
  }
  if (command.has_recv())
    return {command.recv().buffer(), abi::bytesOf(command.recv().type(), command.recv().elements())};
  return {};
}

void StagedCommunicator::copyIn(Range range) {
  if (range.bytes)
    device.read(staged(range), memory.base() + range.offset);
}

void StagedCommunicator::copyOut(Range range) {
  if (range.bytes)
    device.write(memory.base() + range.offset, staged(range));
}

CommandHandle StagedCommunicator::start(const Group &group, const abi::Command &command) {
  copyIn(inputOf(group, command));
  CommandHandle handle = stages->start(group, command);
  results[{handle.channel, handle.ticket}] = outputOf(group, command);
  return handle;
}

CommandTimes StagedCommunicator::wait(const CommandHandle &handle) {
  CommandTimes times = stages->wait(handle);
  auto result = results.extract({handle.channel, handle.ticket});
  copyOut(result.mapped());
  return times;
}

CommandTimes StagedCommunicator::run(const Group &group, const abi::Command &command) {
  copyIn(inputOf(group, command));
  CommandTimes times = stages->run(group, command);
  copyOut(outputOf(group, command));
  return times;
}

} // namespace dtc
