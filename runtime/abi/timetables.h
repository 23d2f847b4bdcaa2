// The timetables of a role, by name.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::abi {

inline constexpr std::string_view stepTimetable = "step", evaluationTimetable = "evaluation",
                                  refreshTimetable = "refresh", promptTimetable = "prompt",
                                  generationTimetable = "generation";

/// Whether the entries of that timetable are for micro-batches.
inline bool takesMicroBatches(std::string_view name) {
  return name != refreshTimetable && name != promptTimetable && name != generationTimetable;
}

/// Empty if the role has none of that name: it then does nothing.
inline const Timetable &timetableOf(const Role &role, std::string_view name) {
  for (const Timetable &timetable : role.timetables())
    if (timetable.name() == name)
      return timetable;
  return Timetable::default_instance();
}

/// The timetable of that name, created if there is none.
inline Timetable &timetableIn(Role &role, std::string_view name) {
  for (Timetable &timetable : *role.mutable_timetables())
    if (timetable.name() == name)
      return timetable;
  Timetable &made = *role.add_timetables();
  made.set_name(std::string(name));
  return made;
}

/// Calls visit(entry) for all entries of a timetable, in order, the parts one after the other.
template <typename Visit> void forEachEntry(const Timetable &timetable, Visit visit) {
  for (const auto *part : {&timetable.startup(), &timetable.period(), &timetable.drain()})
    for (const TimetableEntry &entry : *part)
      visit(entry);
}

/// The first entry of a role's timetables that runs this list; null where none does.
inline const TimetableEntry *firstEntryOf(const Role &role, std::string_view list) {
  for (const Timetable &timetable : role.timetables())
    for (const auto *part : {&timetable.startup(), &timetable.period(), &timetable.drain()})
      for (const TimetableEntry &entry : *part)
        if (entry.list() == list)
          return &entry;
  return nullptr;
}

/// The stage that an entry is for; empty if there is none.
inline const Stage &stageOf(const Manifest &manifest, const TimetableEntry &entry) {
  return entry.stage() < uint32_t(manifest.stages_size()) ? manifest.stages(static_cast<int>(entry.stage()))
                                                          : Stage::default_instance();
}

/// The stages that a role's timetables run, ascending.
inline std::vector<uint32_t> stagesOf(const Role &role) {
  std::set<uint32_t> stages;
  for (const Timetable &timetable : role.timetables())
    forEachEntry(timetable, [&](const TimetableEntry &entry) { stages.insert(entry.stage()); });
  return {stages.begin(), stages.end()};
}

/// The parts of an entry on which its resolved list depends.
inline std::string instanceOf(const TimetableEntry &entry) {
  std::string text = entry.list() + "\n" + std::to_string(entry.stage());
  for (uint32_t place : entry.places())
    text += " " + std::to_string(place);
  return text;
}

/// An entry as it runs in one of several steps, counted from 0. The entry's own step is relative to that step.
struct TimedEntry {
  const TimetableEntry *entry;
  int64_t step;
};

/// What `steps` consecutive steps run; at least 1.
inline std::vector<TimedEntry> unroll(const Timetable &timetable, int64_t steps) {
  std::vector<TimedEntry> all;
  auto add = [&](const auto &entries, int64_t step) {
    for (const TimetableEntry &entry : entries)
      all.push_back({&entry, step});
  };
  add(timetable.startup(), 0);
  for (int64_t step = 0; step < steps; ++step)
    add(step + 1 == steps && !timetable.drain().empty() ? timetable.drain() : timetable.period(), step);
  return all;
}

/// How many consecutive steps show everything a timetable can do: its start, its end, and what is between.
inline int64_t stepsToJudge(const Timetable &timetable) {
  int64_t ahead = 0;
  forEachEntry(timetable, [&](const TimetableEntry &entry) { ahead = std::max<int64_t>(ahead, entry.step()); });
  return ahead == 0 && timetable.startup().empty() && timetable.drain().empty() ? 1 : ahead + 3;
}

} // namespace dtc::abi
