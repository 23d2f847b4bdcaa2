// What a step costs a rank, summed over its commands.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>
#include <map>

namespace dtc {

struct CommandTotals {
  int64_t launches = 0; ///< and copies
  double flops = 0, bytesRead = 0, bytesWritten = 0;
  double sent = 0; ///< bytes to other ranks

  CommandTotals &operator+=(const CommandTotals &other);
  CommandTotals operator*(int64_t times) const;
};

/// Of one command.
CommandTotals totalsOf(const abi::Manifest &manifest, const abi::Command &command);

/// Of one run of a list, by the part of the step that its commands belong to.
std::map<abi::Direction, CommandTotals> totalsOf(const abi::Manifest &manifest, const abi::CommandList &list);

/// Of a training step.
std::map<abi::Direction, CommandTotals> totalsOfStep(const abi::Manifest &manifest, const abi::Role &role);
/// All parts together, padding and repeated work included.
CommandTotals sumOfStep(const abi::Manifest &manifest, const abi::Role &role);

} // namespace dtc
