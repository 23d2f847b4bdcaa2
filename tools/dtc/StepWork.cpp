// What a step costs a rank.
#include "tools/dtc/StepWork.h"

#include "runtime/abi/volume.h"
#include "runtime/abi/written.h"
#include "tools/dtc/Program.h"

using namespace dtc;

CommandTotals &CommandTotals::operator+=(const CommandTotals &other) {
  launches += other.launches;
  flops += other.flops;
  bytesRead += other.bytesRead;
  bytesWritten += other.bytesWritten;
  sent += other.sent;
  return *this;
}

CommandTotals CommandTotals::operator*(int64_t times) const {
  auto factor = static_cast<double>(times);
  return {launches * times, flops * factor, bytesRead * factor, bytesWritten * factor, sent * factor};
}

CommandTotals dtc::totalsOf(const abi::Manifest &manifest, const abi::Command &command) {
  CommandTotals one;
  one.flops = command.work().flops();
  one.launches = command.has_launch() || command.has_copy();
  one.bytesRead = static_cast<double>(command.work().bytes_read());
  one.bytesWritten = static_cast<double>(command.work().bytes_written());
  if (command.has_start()) {
    const abi::Group &group = manifest.groups(static_cast<int>(command.start().group()));
    one.sent = abi::sentBytes(command.start(), abi::membersOf(group));
  }
  return one;
}

std::map<abi::Direction, CommandTotals> dtc::totalsOf(const abi::Manifest &manifest, const abi::CommandList &list) {
  std::map<abi::Direction, CommandTotals> totals;
  for (const abi::Command &command : list.commands())
    if (!command.has_wait())
      totals[command.direction()] += totalsOf(manifest, command);
  return totals;
}

std::map<abi::Direction, CommandTotals> dtc::totalsOfStep(const abi::Manifest &manifest, const abi::Role &role) {
  std::map<abi::Direction, CommandTotals> totals;
  for (const abi::CommandList &list : manifest.lists())
    if (int64_t times = timesInStep(role, list))
      for (auto &[direction, once] : totalsOf(manifest, list))
        totals[direction] += once * times;
  return totals;
}

CommandTotals dtc::sumOfStep(const abi::Manifest &manifest, const abi::Role &role) {
  CommandTotals sum;
  for (auto &[direction, part] : totalsOfStep(manifest, role))
    sum += part;
  return sum;
}
