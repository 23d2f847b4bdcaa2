// Which bytes of an arena are in use when: from the first write of a value to its last use.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace dtc {

/// A command of a step, by its list and its number there.
using StepCommand = std::pair<std::string, int64_t>;

/// The commands that a step of a role runs, in their order, and what is alive beside its tensors at each: what has been
/// written and is still read, operands and results of what is under way among it.
struct StepLifetimes {
  std::vector<StepCommand> commands;
  std::vector<uint64_t> work;    ///< bytes in memory that no peer sees
  std::vector<uint64_t> visible; ///< bytes that peers see

  /// Empty where the step has more than `most` commands.
  static StepLifetimes of(const abi::Manifest &manifest, const abi::Role &role, int64_t most);
};

} // namespace dtc
