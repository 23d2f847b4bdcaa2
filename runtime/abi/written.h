// Which memory a command reads, and where it writes its results.
#pragma once

#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"

namespace dtc::abi {

/// The number of members of a group.
inline int64_t membersOf(const Group &group) {
  if (!group.members().empty())
    return group.members_size();
  int64_t members = 1;
  for (const AxisRef &axis : group.axes())
    members *= axis.size();
  return members;
}

/// Calls read(address, bytes) and write(address, bytes) for each range of memory that a start, a send or a receive
/// reads and writes, on each of `members` members of its group.
template <typename Read, typename Write>
void forEachMovedRange(const Command &command, int64_t members, Read read, Write write) {
  auto sizeOf = [](DataType type, int64_t elements) { return bytesOf(type, static_cast<uint64_t>(elements)); };
  if (command.has_send()) {
    read(command.send().buffer(), sizeOf(command.send().type(), command.send().elements()));
  } else if (command.has_recv()) {
    write(command.recv().buffer(), sizeOf(command.recv().type(), command.recv().elements()));
  } else {
    const Collective &call = command.start();
    read(call.input(), sizeOf(call.type(), inputElements(call, members)));
    write(call.output(), sizeOf(call.type(), outputElements(call, members)));
    if (hasLogs(call)) {
      read(call.log_input(), sizeOf(F32, inputLogs(call, members)));
      write(call.log_output(), sizeOf(F32, outputLogs(call)));
    }
    if (call.has_counts())
      read(call.counts(), sizeOf(I32, members));
    if (call.has_received())
      write(call.received(), sizeOf(I32, members));
  }
}

/// Likewise for each command.
template <typename Read, typename Write>
void forEachRange(const Manifest &manifest, const Command &command, Read read, Write write) {
  if (command.has_launch()) { // outputs and scratch come last
    const Launch &launch = command.launch();
    int inputs = static_cast<int>(manifest.kernels(static_cast<int>(launch.kernel())).inputs());
    for (int buffer = 0; buffer < launch.buffers_size(); ++buffer)
      if (buffer < inputs)
        read(launch.buffers(buffer), launch.buffer_bytes(buffer));
      else
        write(launch.buffers(buffer), launch.buffer_bytes(buffer));
    if (launch.has_grid_count())
      read(launch.grid_count(), bytesOf(I32, 1));
  } else if (communicates(command)) {
    forEachMovedRange(command, membersOf(manifest.groups(static_cast<int>(groupOf(command)))), read, write);
  } else if (command.has_copy()) {
    const Copy &copy = command.copy();
    uint64_t bytes = bytesOf(copy.type(), static_cast<uint64_t>(copy.elements()));
    read(copy.input(), bytes);
    write(copy.output(), bytes);
  }
}

/// Calls visit(address, bytes) for each range of memory that a command reads; a command for which isStart() holds reads
/// until its wait. A range may have gaps, which are not read.
template <typename Visit> void forEachRead(const Manifest &manifest, const Command &command, Visit visit) {
  forEachRange(manifest, command, visit, [](uint64_t, uint64_t) {});
}

/// Calls visit(address, bytes) for each range of memory that a command writes; a command for which isStart() holds has
/// written by its wait. A range may have gaps, which are not written.
template <typename Visit> void forEachWritten(const Manifest &manifest, const Command &command, Visit visit) {
  forEachRange(manifest, command, [](uint64_t, uint64_t) {}, visit);
}

} // namespace dtc::abi
