// Checks that a step computes the same result twice.
//
// All that a step does before its first list that changes the state (forward and backward passes of all micro-batches,
// reductions, norms) follows from the state, the inputs and the keys of random numbers, to the bit: sums do not depend
// on timing. So it is run a second time from the same state, and the output of every command is hashed both times. The
// first command whose hash differs shows where a processor or memory failed; by the end of the backward pass all
// gradients would differ, and none would show where it began.
#pragma once

#include "runtime/executor/executor.h"

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace dtc {

class ReplayCheck {
public:
  using Fill = std::function<void(const abi::TimetableEntry &)>;

  /// Checks every `every`-th step. `executor` outlives it; `stateWriters` are its lists that change the state. Throws
  /// Error (BadInput) where the step's timetable has a micro-batch behind the first of these, or steps overlap
  /// or differ in their places.
  ReplayCheck(Executor &executor, const std::set<std::string> &stateWriters, int64_t every);

  /// Whether step `step`, counted from 1, is checked.
  bool isDue(int64_t step) const { return step % every == 0; }
  /// How many of the timetable's entries are run twice: the first ones.
  int entries() const { return static_cast<int>(firsts.size()); }
  /// What it does and what memory it takes outside the arena, for people.
  std::string describe() const;

  /// Runs these entries twice; `fill` is called before each, to fill in what it reads. Throws Error
  /// (Corrupted) on all ranks where the two differ; the rank with the earliest difference has the message. Collective.
  void run(int64_t step, const Fill &fill);

private:
  struct Range {
    uint64_t begin, end;
  };
  void findPassing();
  void clear();
  /// The hash of what each command wrote, numbered through all entries.
  std::vector<uint64_t> pass(const Fill &fill);
  [[noreturn]] void blame(int64_t step, size_t number) const;

  Executor &executor;
  int64_t every;
  std::vector<const abi::TimetableEntry *> repeated;
  std::vector<abi::CommandList> lists; // per entry, resolved
  std::vector<size_t> firsts;          // per entry, the number of its first command
  size_t commands = 0;                 // of all entries
  std::vector<Range> passing;          // of the arena: all but the state and the inputs
};

} // namespace dtc
