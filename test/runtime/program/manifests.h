// What tests write into manifests by hand.
#pragma once

#include "runtime/abi/addresses.h"
#include "runtime/abi/groups.h"
#include "runtime/abi/timetables.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace dtc::test {

/// All of the mesh axis of that name and size.
inline abi::AxisRef wholeAxis(const std::string &name, int64_t size) {
  abi::AxisRef axis;
  axis.set_axis(name);
  axis.set_pre(1);
  axis.set_size(size);
  return axis;
}

/// The index of the group of all ranks over `axes`. Where the manifest has none yet, it gets one.
inline uint32_t findOrAddGroup(abi::Manifest &manifest, const abi::AxisRefs &axes) {
  auto isSame = [](const abi::AxisRef &a, const abi::AxisRef &b) {
    return a.axis() == b.axis() && a.pre() == b.pre() && a.size() == b.size();
  };
  for (int index = 0; index < manifest.groups_size(); ++index)
    if (manifest.groups(index).members().empty() && std::ranges::equal(manifest.groups(index).axes(), axes, isSame))
      return static_cast<uint32_t>(index);
  return abi::addGroup(manifest, axes);
}

/// The entries of a role's timetable, which is made where there is none.
inline google::protobuf::RepeatedPtrField<abi::TimetableEntry> &
entriesOf(abi::Manifest &manifest, std::string_view timetable = abi::stepTimetable, int role = 0) {
  return *abi::timetableIn(*manifest.mutable_roles(role), timetable).mutable_period();
}

inline abi::TimetableEntry &addEntry(abi::Role &role, std::string_view timetable, const std::string &list) {
  abi::TimetableEntry &entry = *abi::timetableIn(role, timetable).add_period();
  entry.set_list(list);
  return entry;
}

/// A space from `begin` on, of one place unless the caller says otherwise. Returns its number.
inline uint32_t addSpace(abi::Role &role, abi::Space::Kind kind, uint64_t begin, uint64_t stride, uint32_t places = 1) {
  abi::Space &space = *role.add_spaces();
  space.set_name("space " + std::to_string(role.spaces_size() - 1));
  space.set_kind(kind);
  space.set_base(begin);
  space.set_stride(stride);
  space.set_places(places);
  return static_cast<uint32_t>(role.spaces_size() - 1);
}

/// The role's memory is one space, which peers see.
inline void setArena(abi::Role &role, uint64_t bytes) {
  role.set_arena_bytes(bytes);
  if (role.spaces().empty())
    addSpace(role, abi::Space::REGISTERED, 0, bytes);
  role.mutable_spaces(0)->set_stride(bytes);
}

inline abi::CommandList &addList(abi::Manifest &manifest, const std::string &name,
                                 abi::CommandList::Duty duty = abi::CommandList::ONCE) {
  abi::CommandList &list = *manifest.add_lists();
  list.set_name(name);
  list.set_duty(duty);
  return list;
}

inline abi::CommandList &listIn(abi::Manifest &manifest, const std::string &name) {
  for (abi::CommandList &list : *manifest.mutable_lists())
    if (list.name() == name)
      return list;
  throw std::logic_error("no list " + name);
}

} // namespace dtc::test
