// The table of groups of a manifest: how it is written and its limits.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>
#include <span>

namespace dtc::abi {

/// How many channels the transports have; any further groups share them.
inline constexpr uint32_t MaximumChannels = 8;

using AxisRefs = google::protobuf::RepeatedPtrField<AxisRef>;

/// Adds a group over `axes`, of all their ranks or of `members`, on its own channel while channels last. Returns its
/// index.
inline uint32_t addGroup(Manifest &manifest, const AxisRefs &axes, std::span<const int32_t> members = {}) {
  auto index = static_cast<uint32_t>(manifest.groups_size());
  Group &group = *manifest.add_groups();
  *group.mutable_axes() = axes;
  group.mutable_members()->Add(members.begin(), members.end());
  group.set_channel(index % MaximumChannels);
  return index;
}

} // namespace dtc::abi
