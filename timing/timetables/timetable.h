// A pipeline's timetable as data: what each rank computes in a step, in order. Generators make timetables (named.h),
// files hold them (csv.h), a checker judges them (check.h), a simulator costs them (simulate.h).
//
// Stages are numbered along the model, micro-batches in the order of their samples. A rank has one or more stages. A
// transfer between two ranks is no entry: it follows from where the stages are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::timetables {

/// The letter is that of PyTorch's files, in parentheses.
enum class Kind : uint8_t {
  Forward,        ///< (F) leaves a stash for the backward pass
  Backward,       ///< (B) both of the next two, in one
  BackwardInput,  ///< (I) the gradient that the stage before waits for
  BackwardWeight, ///< (W) the gradients of the stage's own weights, after which the stash is free
};

/// What a rank does with one micro-batch in one of its stages.
struct Entry {
  Kind kind = Kind::Forward;
  bool withNext = false; ///< it is co-scheduled with the next entry of the list: both begin and end together
  int32_t stage = 0;
  int32_t microBatch = 0;

  bool operator==(const Entry &) const = default;
};

/// Whether an entry computes the gradient that the stage before waits for, or the gradients of weights.
constexpr bool givesInputGradient(Kind kind) { return kind == Kind::Backward || kind == Kind::BackwardInput; }
constexpr bool givesWeightGradient(Kind kind) { return kind == Kind::Backward || kind == Kind::BackwardWeight; }

/// Where the stages are.
enum class Placement {
  Loop, ///< stage s on rank s mod p
  V,    ///< of 2p stages, stage s < p on rank s, another on rank 2p - 1 - s: rank 0 has the first and the last
};

struct Timetable {
  std::string name;            ///< for messages: of a generator or a file
  int32_t microBatches = 0;    ///< of a step
  std::vector<int32_t> rankOf; ///< of each stage; -1: no rank has an entry of it
  std::vector<std::vector<Entry>> ranks;

  int32_t stages() const { return static_cast<int32_t>(rankOf.size()); }
  /// The place of a stage and a micro-batch in a table of all of them.
  size_t index(int32_t stage, int32_t microBatch) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(microBatches) + static_cast<size_t>(microBatch);
  }
  size_t index(const Entry &entry) const { return index(entry.stage, entry.microBatch); }
};

/// The rank of each of `stages` stages. V takes 2 * ranks stages.
std::vector<int32_t> placeStages(Placement placement, int32_t ranks, int32_t stages);

/// The stages of a rank, in ascending order.
std::vector<int32_t> stagesOf(const Timetable &timetable, int32_t rank);

/// How many entries all ranks have.
size_t countEntries(const Timetable &timetable);

/// Whether it computes gradients of inputs and of weights in passes of their own.
bool splitsBackward(const Timetable &timetable);

/// The same in passes of that kind only: a whole backward pass becomes two entries.
Timetable withSplitBackward(const Timetable &timetable);

/// The letter of a kind: 'F', 'B', 'I' or 'W'.
char letterOf(Kind kind);

/// As in PyTorch's files: "3B2" is the whole backward pass of micro-batch 2 in stage 3.
std::string textOf(const Entry &entry);

/// For messages: "3B2 (stage 3, micro-batch 2)".
std::string describe(const Entry &entry);

} // namespace dtc::timetables
