// The timetables of a role, by name.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::abi {

inline constexpr std::string_view stepTimetable = "step", evaluationTimetable = "evaluation", redoTimetable = "redo",
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

/// Calls visit(entry) for all entries of a timetable, in order.
template <typename Visit> void forEachEntry(const Timetable &timetable, Visit visit) {
  for (const TimetableEntry &entry : timetable.period())
    visit(entry);
}

/// The first entry of a role's timetables that runs this list; null where none does.
inline const TimetableEntry *firstEntryOf(const Role &role, std::string_view list) {
  for (const Timetable &timetable : role.timetables())
    for (const TimetableEntry &entry : timetable.period())
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

/// The parts of an entry on which its resolved list depends: in the first step, if it moves on from place to place.
inline std::string instanceOf(const TimetableEntry &entry) {
  std::string text = entry.list() + "\n" + std::to_string(entry.stage());
  int mentioned = entry.places_size();
  while (mentioned > 0 && entry.places(mentioned - 1) == 0) // as good as not mentioned
    --mentioned;
  for (int space = 0; space < mentioned; ++space)
    text += " " + std::to_string(entry.places(space));
  return text;
}

/// Through how many places of a space an entry moves on from step to step; 0: it stays in one.
inline uint32_t turnsOf(const TimetableEntry &entry, uint32_t space) {
  return space < uint32_t(entry.turns_size()) ? entry.turns(static_cast<int>(space)) : 0;
}

/// After how many steps an entry is in its first places again; 1 if it does not move. Once beyond 2^31, any number that
/// is too large.
inline int64_t stepsOfTurn(const TimetableEntry &entry) {
  int64_t steps = 1;
  for (uint32_t turns : entry.turns())
    if (turns > 0 && steps < int64_t(1) << 31)
      steps = std::lcm(steps, int64_t(turns));
  return steps;
}

/// An entry as it runs for step `step`, counted from the first of a run of steps: in the places of that step.
inline TimetableEntry inStep(const TimetableEntry &entry, int64_t step) {
  TimetableEntry fixed = entry;
  for (int space = 0; space < entry.turns_size(); ++space)
    if (auto turns = int64_t(entry.turns(space)); turns > 0) {
      while (fixed.places_size() <= space)
        fixed.add_places(0);
      fixed.set_places(space, static_cast<uint32_t>((fixed.places(space) + step) % turns));
    }
  fixed.clear_turns();
  return fixed;
}

/// How far the entries of a timetable are ahead of the running step; 0: its steps do not overlap.
inline int64_t stepsAhead(const Timetable &timetable) {
  int64_t ahead = 0;
  forEachEntry(timetable, [&](const TimetableEntry &entry) { ahead = std::max<int64_t>(ahead, entry.step()); });
  return ahead;
}

/// The same of the timetables of that name of all roles: they all begin and end their steps together.
inline int64_t stepsAhead(const Manifest &manifest, std::string_view name) {
  int64_t ahead = 0;
  for (const Role &role : manifest.roles())
    ahead = std::max(ahead, stepsAhead(timetableOf(role, name)));
  return ahead;
}

/// The most places of a space through which an entry of a timetable moves.
inline int64_t mostTurns(const Timetable &timetable) {
  int64_t most = 0;
  forEachEntry(timetable, [&](const TimetableEntry &entry) {
    for (uint32_t turns : entry.turns())
      most = std::max<int64_t>(most, turns);
  });
  return most;
}

/// Calls visit(entry, step) for what a timetable runs while step `running` of a run of `steps` steps, numbered from 0,
/// is the running one; it is negative before the first. `step` is the one that the entry is for.
template <typename Visit> void forEachIn(const Timetable &timetable, int64_t running, int64_t steps, Visit visit) {
  for (const TimetableEntry &entry : timetable.period())
    if (int64_t step = running + entry.step(); step >= 0 && step < steps)
      visit(entry, step);
}

/// An entry as it runs in one of several steps. `step` is the running one, counted from 0 and negative before the
/// first; the entry's own step is relative to it. The entry is in the places of its own step.
struct TimedEntry {
  const TimetableEntry *entry;
  int64_t step;
  bool isRedo = false; ///< of the timetable "redo"
};

/// What consecutive steps run, in order. Entries that stay in their places are the timetable's own, which must outlive
/// this object; the others are copies that belong to it.
class Unrolled {
public:
  /// `steps`: at least 1. `redo`: what the role runs behind each of them once more; null: nothing.
  Unrolled(const Timetable &timetable, int64_t steps, const Timetable *redo = nullptr) {
    auto add = [&](const Timetable &which, int64_t running) {
      forEachIn(which, running, steps, [&](const TimetableEntry &entry, int64_t step) {
        all.push_back(
            {entry.turns().empty() ? &entry : &copies.emplace_back(inStep(entry, step)), running, &which == redo});
      });
    };
    for (int64_t running = -stepsAhead(timetable); running < steps; ++running) {
      add(timetable, running);
      if (redo && running >= 0)
        add(*redo, running);
    }
  }
  Unrolled(Unrolled &&) = default; // which leaves the copies where they are
  Unrolled(const Unrolled &) = delete;
  Unrolled &operator=(Unrolled &&) = default;
  Unrolled &operator=(const Unrolled &) = delete;
  ~Unrolled() = default;

  auto begin() const { return all.begin(); }
  auto end() const { return all.end(); }
  size_t size() const { return all.size(); }
  bool empty() const { return all.empty(); }
  const TimedEntry &operator[](size_t number) const { return all[number]; }

private:
  std::vector<TimedEntry> all;
  std::deque<TimetableEntry> copies;
};

inline Unrolled unroll(const Timetable &timetable, int64_t steps) { return {timetable, steps}; }

/// How many consecutive steps show everything a timetable can do: its start, its end, and what is between, with each
/// place that it takes turns in.
inline int64_t stepsToJudge(const Timetable &timetable) {
  int64_t ahead = stepsAhead(timetable), turns = mostTurns(timetable);
  return ahead == 0 && turns == 0 ? 1 : ahead + turns + 3;
}

/// Whether its steps may have to be redone: whether it has a timetable for that.
inline bool mayRedo(const Role &role) { return !timetableOf(role, redoTimetable).period().empty(); }

/// How many show everything that a timetable of a role does, together with what may be redone behind its steps: a rank
/// that begins nothing early may have to drop what others have begun.
inline int64_t stepsToJudge(const Role &role, const Timetable &timetable) {
  bool isRedone = timetable.name() == stepTimetable && mayRedo(role);
  return std::max(stepsToJudge(timetable), isRedone ? stepsToJudge(timetableOf(role, redoTimetable)) : 1);
}

/// The runs of `steps` steps that show everything that a timetable of a role can do. Where steps may have to be redone,
/// these are one in which none is, and one in which each is; what they leave under way is equal, so any mix is like one
/// of the two. "redo" by itself is no run.
inline std::vector<Unrolled> runsToJudge(const Role &role, const Timetable &timetable, int64_t steps) {
  std::vector<Unrolled> runs;
  if (timetable.name() == redoTimetable)
    return runs;
  runs.emplace_back(timetable, steps);
  if (timetable.name() == stepTimetable && mayRedo(role))
    runs.emplace_back(timetable, steps, &timetableOf(role, redoTimetable));
  return runs;
}
inline std::vector<Unrolled> runsToJudge(const Role &role, const Timetable &timetable) {
  return runsToJudge(role, timetable, stepsToJudge(role, timetable));
}

/// How many show everything that the timetables of that name of all roles do together.
inline int64_t stepsToJudge(const Manifest &manifest, std::string_view name) {
  int64_t steps = 1;
  for (const Role &role : manifest.roles())
    steps = std::max(steps, stepsToJudge(role, timetableOf(role, name)));
  return steps;
}

} // namespace dtc::abi
