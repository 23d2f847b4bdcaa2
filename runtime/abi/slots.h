// Places of which a role has several: a micro-batch in flight works in one of its own.
//
// A slot class is memory with a number of places, one behind the other. Commands name addresses of the first; in an
// entry of the timetable with slot s they mean those s * stride further on. Addresses outside all classes mean
// themselves.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>

namespace dtc::abi {

/// What an address of a command means in a slot.
inline uint64_t addressIn(const Role &role, uint64_t address, uint32_t slot) {
  for (const SlotClass &each : role.slot_classes())
    if (address >= each.base() && address - each.base() < each.stride())
      return address + slot * each.stride();
  return address;
}

/// The commands of a list as they are in a slot: with their own addresses.
inline CommandList listIn(const Role &role, const CommandList &list, uint32_t slot) {
  CommandList moved = list;
  auto move = [&](uint64_t address) { return addressIn(role, address, slot); };
  for (Command &command : *moved.mutable_commands()) {
    if (command.has_launch())
      for (uint64_t &buffer : *command.mutable_launch()->mutable_buffers())
        buffer = move(buffer);
    if (command.has_start()) {
      command.mutable_start()->set_input(move(command.start().input()));
      command.mutable_start()->set_output(move(command.start().output()));
    }
    if (command.has_send())
      command.mutable_send()->set_buffer(move(command.send().buffer()));
    if (command.has_recv())
      command.mutable_recv()->set_buffer(move(command.recv().buffer()));
    if (command.has_copy()) {
      command.mutable_copy()->set_input(move(command.copy().input()));
      command.mutable_copy()->set_output(move(command.copy().output()));
    }
  }
  return moved;
}

} // namespace dtc::abi
