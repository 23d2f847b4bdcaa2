// What a role's memory holds in the course of a step: found from the command lists alone, and compared with the plan.
//
// Tensors keep their places all the time. In the rest of a space, bytes are in use from the command that writes them to
// the last that reads them; bytes that are under way, until they have been waited for; bytes that are read before any
// command has written them, from the beginning. Where a command leaves a part of what it writes as it was, that part
// stays in use.
//
// There are two measures. `live` is the number of bytes in use. `extent` reaches to the end of the highest of them,
// ends rounded up as the planner does: its maximum is what the plan reserves (Role.memory), to the byte.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtc::timing {

/// A part of the arena that is in use from one command to another, both included.
struct LiveRange {
  uint64_t begin, end; ///< bytes from the arena's beginning
  size_t first, last;  ///< commands of the step
  bool operator==(const LiveRange &) const = default;
};

/// The memory of a role in one category that comes and goes.
struct MemoryCategory {
  std::string name;             ///< as in Role.memory
  std::vector<uint64_t> live;   ///< bytes, while each command runs
  std::vector<uint64_t> extent; ///< likewise, as above; the sum over several spaces
  uint64_t most = 0;            ///< that its spaces' extents reach, each space by itself
};

class StepMemory {
public:
  /// For one step of a timetable, as a rank of `role` walks it; where steps overlap, for a run of as many as show
  /// everything (abi::stepsToJudge). The manifest has been validated.
  StepMemory(const abi::Manifest &manifest, const abi::Role &role, std::string_view timetable);

  /// How many commands such a step has; each takes some bytes here.
  static size_t commandsIn(const abi::Manifest &manifest, const abi::Role &role, std::string_view timetable);

  size_t commands() const { return firsts.back(); }
  /// The number of each entry's first command; one element more than there are entries.
  const std::vector<size_t> &firstCommands() const { return firsts; }
  const std::vector<MemoryCategory> &categories() const { return all; }
  /// In no order. No two overlap.
  const std::vector<LiveRange> &ranges() const { return live; }
  /// What is there all the time, in bytes by category: tensors, and what is lost between places.
  const std::vector<std::pair<std::string, uint64_t>> &always() const { return fixed; }
  /// What comes and goes, while a command runs.
  uint64_t liveAt(size_t command) const;
  /// The first command at which the most bytes are in use.
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
