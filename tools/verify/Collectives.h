// The collectives of manifest.proto on rows of f64 elements.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <string>
#include <vector>

namespace dtc::verify {

/// Elements that each of `ranks` members reads and writes.
int64_t inputElements(const abi::Collective &collective, int64_t ranks);
int64_t outputElements(const abi::Collective &collective, int64_t ranks);

/// What member `me` receives, given every member's operand in group order. Reductions add in that order.
std::vector<double> combine(const abi::Collective &collective, const std::vector<std::vector<double>> &members,
                            int64_t me);

/// "all-reduce of h.3.attn.c_proj over tp".
std::string describe(const abi::Collective &collective, const abi::Manifest &manifest);

/// The group of a collective. Throws ProgramFault where the manifest has none of that number.
const abi::Group &groupOf(const abi::Collective &collective, const abi::Manifest &manifest);

/// Empty when two ranks' descriptions of one collective fit together; otherwise what differs, first's then second's.
std::string findMismatch(const abi::Collective &first, const abi::Collective &second, const abi::Manifest &manifest);

} // namespace dtc::verify
