// What ranks move in a step, read from a program's command lists. Private to tools/dtc/advice.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

/// A collective or a transfer.
struct Moved {
  const abi::CommandList *list = nullptr;
  uint32_t number = 0; ///< in that list; of a bucket, its first part's
  uint32_t group = 0;  ///< index into Manifest.groups
  double payload = 0;  ///< bytes of all parts, as abi::payloadBytes counts them; of a transfer, what is sent
  int64_t times = 0;   ///< in a step

  const abi::Command &command() const { return list->commands(static_cast<int>(number)); }
};

/// Of one role, whose first rank stands for all of its ranks.
struct RoleTraffic {
  const abi::Role *role = nullptr;
  int64_t ranks = 1;                         ///< that have the role
  int64_t first = 0;                         ///< the rank that stands for them
  std::vector<std::vector<int64_t>> members; ///< of each group of the manifest, as that rank sees it; empty: not in it
  std::vector<Moved> moves;                  ///< receives are left out: others send these
};

/// For each role. Refers to the manifest.
std::vector<RoleTraffic> trafficOf(const abi::Manifest &manifest);

/// Whether the members of a group differ in that axis, or in a part of it.
bool isOver(const abi::Group &group, std::string_view axis);
/// Whether they differ in no other axis. A sum over tp and dp together, as of the gradients' norm, is not tensor
/// parallelism.
bool isOverAlone(const abi::Group &group, std::string_view axis);

} // namespace dtc
