#include "timing/timetables/timetable.h"

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

} // namespace dtc::timetables
