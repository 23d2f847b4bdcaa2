#include "timing/timetables/timetable.h"

#include <algorithm>
#include <fmt/format.h>

namespace dtc::timetables {

std::vector<int32_t> placeStages(Placement placement, int32_t ranks, int32_t stages) {
  std::vector<int32_t> rankOf;
  rankOf.reserve(static_cast<size_t>(stages));
  for (int32_t stage = 0; stage < stages; ++stage)
    rankOf.push_back(placement == Placement::V && stage >= ranks ? 2 * ranks - 1 - stage : stage % ranks);
  return rankOf;
}

std::vector<int32_t> stagesOf(const Timetable &timetable, int32_t rank) {
  std::vector<int32_t> stages;
  for (int32_t stage = 0; stage < timetable.stages(); ++stage)
    if (timetable.rankOf[static_cast<size_t>(stage)] == rank)
      stages.push_back(stage);
  return stages;
}

size_t countEntries(const Timetable &timetable) {
  size_t count = 0;
  for (const std::vector<Entry> &list : timetable.ranks)
    count += list.size();
  return count;
}

char letterOf(Kind kind) { return "FBIW"[static_cast<size_t>(kind)]; }

std::string textOf(const Entry &entry) {
  return fmt::format("{}{}{}", entry.stage, letterOf(entry.kind), entry.microBatch);
}

std::string describe(const Entry &entry) {
  return fmt::format("{} (stage {}, micro-batch {})", textOf(entry), entry.stage, entry.microBatch);
}

bool splitsBackward(const Timetable &timetable) {
  return std::ranges::any_of(timetable.ranks, [](const std::vector<Entry> &rank) {
    return std::ranges::any_of(rank, [](const Entry &entry) { return entry.kind == Kind::BackwardInput; });
  });
}

Timetable withSplitBackward(const Timetable &timetable) {
  Timetable split = timetable;
  for (std::vector<Entry> &rank : split.ranks) {
    std::vector<Entry> entries;
    for (Entry entry : rank)
      if (entry.kind == Kind::Backward) {
        Entry second = entry;
        entry.kind = Kind::BackwardInput;
        entry.withNext = false;
        second.kind = Kind::BackwardWeight;
        entries.insert(entries.end(), {entry, second});
      } else {
        entries.push_back(entry);
      }
    rank = std::move(entries);
  }
  return split;
}

} // namespace dtc::timetables
