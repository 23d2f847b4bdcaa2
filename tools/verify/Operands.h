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
  Memory host; ///< its part of the host's memory: an arena of its own, which only copies access

  /// Elements of the arena.
  Buffer buffer(uint64_t offset, abi::DataType type, int64_t elements);
};

/// What a command in progress reads and writes, including logarithms or counts. Buffers without elements where it reads
/// or writes none.
struct Operands {
  Buffer source, target;
  bool inPlace = false;
  Buffer besideSource = {}, besideTarget = {};
  bool isBesideInPlace = false;
};

/// For a collective of `size` members, in which the rank is number `me`, or for a transfer.
Operands operandsOf(RankMemory &memory, const abi::Command &command, int64_t size, int64_t me);
/// Only copies name memory of the host.
Operands operandsOf(RankMemory &memory, const abi::Copy &copy);

/// Memory of one width does not record types, but integers are whole: whatever is combined as integers must be whole.
void requireType(const abi::Collective &call, const Buffer &source, const abi::Manifest &manifest);
/// Requires the numbers of rows that a rank sends to each other rank. Memory that nothing has written is not a count.
void requireCounts(const abi::Collective &call, const Buffer &counts, const std::vector<int64_t> &members, int64_t me,
                   const abi::Manifest &manifest);
/// What is read must not overlap what is written, unless a command may work in place; nor may its results overlap.
void requireApart(const abi::Command &command, const Operands &operands, const abi::Manifest &manifest);
/// Nobody may have written a rank's memory while a command was in progress. `sources`: the contents at its start.
void requireUntouched(const abi::Command &command, const Operands &operands, const CollectiveOperand &sources,
                      const abi::Manifest &manifest);

/// A number that should be whole: "7", "0.5"; nan where nothing has been written.
std::string numberText(double number);

} // namespace dtc::verify
