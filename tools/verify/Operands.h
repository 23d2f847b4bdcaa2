// What a command reads and writes in the interpreter's memory, and whether it may. The checks throw ProgramFault.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "tools/verify/Buffer.h"
#include "tools/verify/Collectives.h"

#include <string>
#include <vector>

namespace dtc::verify {

/// One rank's memory.
struct RankMemory {
  Memory arena;
  Memory host; ///< what it has of the host's: an arena of its own, which copies alone reach

  /// Elements of the arena.
  Buffer buffer(uint64_t offset, abi::DataType type, int64_t elements);
};

/// What a command under way reads and writes, and beside it logarithms or counts. Buffers of no elements where it does
/// not.
struct Operands {
  Buffer source, target;
  bool inPlace = false;
  Buffer besideSource = {}, besideTarget = {};
  bool isBesideInPlace = false;
};

/// Of a collective of `size` members, of which the rank is number `me`, or of a transfer.
Operands operandsOf(RankMemory &memory, const abi::Command &command, int64_t size, int64_t me);
/// Of all commands copies alone name memory of the host.
Operands operandsOf(RankMemory &memory, const abi::Copy &copy);

/// Memory of one width knows no types, but integers are whole: what is combined as integers must be.
void requireType(const abi::Collective &call, const Buffer &source, const abi::Manifest &manifest);
/// How many rows a rank sends each other one. Memory that nothing has written is no count.
void requireCounts(const abi::Collective &call, const Buffer &counts, const std::vector<int64_t> &members, int64_t me,
                   const abi::Manifest &manifest);
/// What is read lies apart from what is written, unless a command may work in place, and so do its results.
void requireApart(const abi::Command &command, const Operands &operands, const abi::Manifest &manifest);
/// Nobody has written a rank's memory while a command was under way. `sources`: what was there when it was started.
void requireUntouched(const abi::Command &command, const Operands &operands, const CollectiveOperand &sources,
                      const abi::Manifest &manifest);

/// A number that should be whole: "7", "0.5"; nan where nothing has been written.
std::string numberText(double number);

} // namespace dtc::verify
