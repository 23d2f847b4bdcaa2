// The collectives of manifest.proto on rows of f64 elements.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <string>
#include <vector>

namespace dtc::verify {

/// A member's contribution to a collective, or its result.
struct CollectiveOperand {
  std::vector<double> values;
  /// Logarithms of the rows' weights (LOG_SUM_EXP), or how many rows each member sends or gets (an all-to-all with
  /// counts).
  std::vector<double> beside;
};

/// The result of member `me`, given every member's operand in group order. Reductions add in that order. `before`: the
/// old contents of the result's memory, where all-to-alls with counts leave rows as they were.
CollectiveOperand combine(const abi::Collective &collective, const std::vector<CollectiveOperand> &members, int64_t me,
                std::vector<double> before = {});

/// "all-reduce of h.3.attn.c_proj over tp", "send of h.3 by 1 over pp", "copy of 64 f32 to the host".
std::string describe(const abi::Collective &collective, const abi::Manifest &manifest);
std::string describe(const abi::Command &command, const abi::Manifest &manifest);

/// The group with that number. Throws ProgramFault where the manifest has none.
const abi::Group &groupOf(uint32_t group, const abi::Manifest &manifest);
inline const abi::Group &groupOf(const abi::Collective &collective, const abi::Manifest &manifest) {
  return groupOf(collective.group(), manifest);
}

/// Empty when two ranks' descriptions of one collective or transfer match; otherwise what differs, the first one's and
/// then the second one's.
std::string findMismatch(const abi::Command &first, const abi::Command &second, const abi::Manifest &manifest);

} // namespace dtc::verify
