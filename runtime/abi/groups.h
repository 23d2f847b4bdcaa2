// The table of groups of a manifest: what writes one and what bounds it.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>
#include <span>

namespace dtc::abi {

/// How many channels the transports have: groups beyond share them.
inline constexpr uint32_t MaximumChannels = 8;

using AxisRefs = google::protobuf::RepeatedPtrField<AxisRef>;

/// Another group over `axes`, of all their ranks or of some, on a channel of its own as long as there are any.
inline uint32_t addGroup(Manifest &manifest, const AxisRefs &axes, std::span<const int32_t> members = {}) {
  auto index = static_cast<uint32_t>(manifest.groups_size());
  Group &group = *manifest.add_groups();
  *group.mutable_axes() = axes;
  group.mutable_members()->Add(members.begin(), members.end());
  group.set_channel(index % MaximumChannels);
  return index;
}

} // namespace dtc::abi
