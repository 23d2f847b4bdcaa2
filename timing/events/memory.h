// What a role's memory holds in the course of a step: found from the command lists alone, and held against the plan.
//
// Tensors have their places all the time. In what else a space has, bytes are in use from the command that writes them
// to the last that reads them; what is under way, until it has been waited for; what is read before any command has
// written it, from the begin on. Where a command leaves a part of what it writes as it was, that stays in use.
//
// Two measures of it. `live` are the bytes in use. `extent` reaches to the end of the highest of them, ends rounded up
// as the planner does: its most is what the plan reserves (Role.memory), to the byte.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtc::timing {

/// A part of the arena that is in use, from a command to another, both included.
struct LiveRange {
  uint64_t begin, end; ///< bytes from the arena's begin
  size_t first, last;  ///< commands of the step
  bool operator==(const LiveRange &) const = default;
};

/// What of a role's memory comes and goes, of one category.
struct MemoryCategory {
  std::string name;             ///< as Role.memory has it
  std::vector<uint64_t> live;   ///< bytes, while each command runs
  std::vector<uint64_t> extent; ///< likewise, as above; of several spaces the sum
  uint64_t most = 0;            ///< that its spaces' extents reach, each for itself
};

class StepMemory {
public:
  /// Of one step of a timetable, as a rank of `role` walks it. The manifest has been validated.
  StepMemory(const abi::Manifest &manifest, const abi::Role &role, std::string_view timetable);

  /// How many commands such a step has; each takes some bytes here.
  static size_t commandsIn(const abi::Manifest &manifest, const abi::Role &role, std::string_view timetable);

  size_t commands() const { return firsts.back(); }
  /// The number of an entry's first command; one more than there are entries.
  const std::vector<size_t> &firstCommands() const { return firsts; }
  const std::vector<MemoryCategory> &categories() const { return all; }
  /// In no order. No two overlap.
  const std::vector<LiveRange> &ranges() const { return live; }
  /// What is there all the time, bytes by category: tensors, and what is lost between places.
  const std::vector<std::pair<std::string, uint64_t>> &always() const { return fixed; }
  /// What comes and goes, while a command runs.
  uint64_t liveAt(size_t command) const;
  /// The first command at which most is in use.
  size_t peak() const;

private:
  void walk(const abi::Manifest &manifest, const abi::Role &role, std::string_view timetable,
            const std::vector<uint64_t> &tensorEnds);

  std::vector<size_t> firsts;
  std::vector<MemoryCategory> all;
  std::vector<LiveRange> live;
  std::vector<std::pair<std::string, uint64_t>> fixed;
};

} // namespace dtc::timing
