// What a command reads, and where it leaves its results.
#pragma once

#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"

namespace dtc::abi {

/// The members of a group.
inline int64_t membersOf(const Group &group) {
  if (!group.members().empty())
    return group.members_size();
  int64_t members = 1;
  for (const AxisRef &axis : group.axes())
    members *= axis.size();
  return members;
}

/// Calls visit(address, bytes) for each range of memory that a command reads; a collective or a send does until the
/// wait for it. A range may have gaps, which are not read.
template <typename Visit> void forEachRead(const Manifest &manifest, const Command &command, Visit visit) {
  if (command.has_launch()) {
    const Launch &launch = command.launch();
    int inputs = static_cast<int>(manifest.kernels(static_cast<int>(launch.kernel())).inputs());
    for (int buffer = 0; buffer < inputs; ++buffer)
      visit(launch.buffers(buffer), launch.buffer_bytes(buffer));
  } else if (command.has_start()) {
    const Collective &call = command.start();
    int64_t members = membersOf(manifest.groups(static_cast<int>(call.group())));
    visit(call.input(), bytesOf(call.type(), static_cast<uint64_t>(inputElements(call, members))));
  } else if (command.has_send()) {
    visit(command.send().buffer(), bytesOf(command.send().type(), static_cast<uint64_t>(command.send().elements())));
  } else if (command.has_copy()) {
    visit(command.copy().input(), bytesOf(command.copy().type(), static_cast<uint64_t>(command.copy().elements())));
  }
}

/// Calls visit(address, bytes) for each range of memory that a command writes; a collective or a receive has by the
/// wait for it. A range may have gaps, which are not written.
template <typename Visit> void forEachWritten(const Manifest &manifest, const Command &command, Visit visit) {
  if (command.has_launch()) { // outputs, and what kernels work in, come last
    const Launch &launch = command.launch();
    int inputs = static_cast<int>(manifest.kernels(static_cast<int>(launch.kernel())).inputs());
    for (int buffer = inputs; buffer < launch.buffers_size(); ++buffer)
      visit(launch.buffers(buffer), launch.buffer_bytes(buffer));
  } else if (command.has_start()) {
    const Collective &call = command.start();
    int64_t members = membersOf(manifest.groups(static_cast<int>(call.group())));
    visit(call.output(), bytesOf(call.type(), static_cast<uint64_t>(outputElements(call, members))));
  } else if (command.has_recv()) {
    visit(command.recv().buffer(), bytesOf(command.recv().type(), static_cast<uint64_t>(command.recv().elements())));
  } else if (command.has_copy()) {
    visit(command.copy().output(), bytesOf(command.copy().type(), static_cast<uint64_t>(command.copy().elements())));
  }
}

} // namespace dtc::abi
