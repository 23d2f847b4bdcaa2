#include "runtime/abi/timetable_check.h"

#include "runtime/abi/addresses.h"
#include "runtime/abi/timetables.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <tuple>

namespace dtc::abi {

/// "entry 3". An entry that moves from place to place runs as a copy; of several that it may be a copy of, the first.
static std::string numberOf(const Timetable &timetable, const TimetableEntry &entry) {
  auto isSame = [&](const TimetableEntry &own) {
    return own.list() == entry.list() && own.stage() == entry.stage() && own.step() == entry.step() &&
           own.has_micro_batch() == entry.has_micro_batch() && own.micro_batch() == entry.micro_batch();
  };
  const auto &entries = timetable.period();
  auto found = std::ranges::find_if(entries, [&](const TimetableEntry &own) { return &own == &entry; });
  if (found == entries.end())
    found = std::ranges::find_if(entries, isSame);
  return found == entries.end() ? "no entry of it" : fmt::format("entry {}", found - entries.begin());
}

std::string describeEntry(const Timetable &timetable, const TimetableEntry &entry) {
  return fmt::format("list '{}'{} in stage {} ({})", entry.list(),
                     entry.has_micro_batch() ? fmt::format(" on micro-batch {}", entry.micro_batch()) : "",
                     entry.stage(), numberOf(timetable, entry));
}

/// A micro-batch of one step on its way through a stage.
using Journey = std::tuple<int64_t, uint32_t, int64_t>; // step, stage, micro-batch

static Journey journeyOf(const TimedEntry &timed) {
  return {timed.step + timed.entry->step(), timed.entry->stage(), timed.entry->micro_batch()};
}

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

namespace {

class PassCheck {
public:
  PassCheck(const Role &role, const Timetable &timetable, const JudgedLists &lists, int64_t stages)
      : role(role), timetable(timetable), lists(lists), stages(stages) {}

  /// `entries`: what a run of `steps` steps runs.
  std::string run(const Unrolled &entries, int64_t steps, int64_t microBatches);
  /// Checks the entries one by one.
  std::string checkEntries(int64_t microBatches);

private:
  enum class Passed { Nothing, Forward, InputGradients, Everything };
  struct Progress {
    Passed so = Passed::Nothing;
    const TimetableEntry *last = nullptr; ///< the last entry that processed it
  };

  static std::optional<Passed> after(CommandList::Duty duty, Passed before);
  std::string checkEntry(const TimetableEntry &entry, int64_t microBatches);
  std::string checkPlaces(const TimetableEntry &entry) const;
  /// For messages alone: its number is searched for.
  std::string runs(const TimetableEntry &entry) const { return "runs " + describeEntry(timetable, entry); }
  std::string checkTurns(const TimetableEntry &entry);
  std::string pass(const TimedEntry &timed);
  std::string requireAll(int64_t steps, int64_t microBatches) const;

  const Role &role;
  const Timetable &timetable;
  const JudgedLists &lists;
  int64_t stages;
  std::map<int, const TimetableEntry *> turning; ///< by space: the first entry that moves through its places
  std::map<Journey, Progress> passed;
  /// For each step and stage: the last entry that added gradients.
  std::map<std::pair<int64_t, uint32_t>, const TimetableEntry *> added;
};

} // namespace

std::string PassCheck::checkEntry(const TimetableEntry &entry, int64_t microBatches) {
  auto list = lists.byName.find(entry.list());
  if (list == lists.byName.end())
    return runs(entry) + ", which does not exist";
  bool takesOne = list->second.duty != CommandList::ONCE && list->second.duty != CommandList::EXCHANGE;
  if (takesOne != entry.has_micro_batch())
    return fmt::format("{}; it is a list for {}", runs(entry), takesOne ? "a micro-batch" : "no micro-batch");
  if (entry.stage() >= uint64_t(stages))
    return fmt::format("{}; there are {} stages", runs(entry), stages);
  if (entry.step() < 0)
    return fmt::format("{} for the step {} ahead", runs(entry), entry.step());
  if (entry.has_micro_batch() && (entry.micro_batch() < 0 || entry.micro_batch() >= microBatches))
    return fmt::format("{}; a step has {} micro-batches", runs(entry), microBatches);
  std::string fault = checkPlaces(entry);
  return fault.empty() ? checkTurns(entry) : fault;
}

std::string PassCheck::checkPlaces(const TimetableEntry &entry) const {
  if (entry.places_size() > role.spaces_size())
    return fmt::format("{} in places of {} spaces of {}", runs(entry), entry.places_size(), role.spaces_size());
  for (int space = 0; space < entry.places_size(); ++space)
    if (entry.places(space) >= role.spaces(space).places())
      return fmt::format("{} in place {} of space '{}', which has {}", runs(entry), entry.places(space),
                         role.spaces(space).name(), role.spaces(space).places());
  return "";
}

/// All entries that move through a space take equally many steps for it. So every step is like the one before, in other
/// places.
std::string PassCheck::checkTurns(const TimetableEntry &entry) {
  if (entry.turns_size() > role.spaces_size())
    return fmt::format("{} through places of {} spaces of {}", runs(entry), entry.turns_size(), role.spaces_size());
  for (int space = 0; space < entry.turns_size(); ++space) {
    uint32_t turns = entry.turns(space), place = placeOf(entry, static_cast<uint32_t>(space));
    const Space &of = role.spaces(space);
    if (turns == 0)
      continue;
    if (turns > of.places())
      return fmt::format("{} through {} places of space '{}', which has {}", runs(entry), turns, of.name(),
                         of.places());
    if (place >= turns)
      return fmt::format("{} from place {} on of the {} places of space '{}' that it takes turns in", runs(entry),
                         place, turns, of.name());
    const TimetableEntry *first = turning.try_emplace(space, &entry).first->second;
    if (first->turns(space) != turns)
      return fmt::format("{} through {} places of space '{}', and {} through {}", runs(entry), turns, of.name(),
                         describeEntry(timetable, *first), first->turns(space));
  }
  return "";
}

/// How far a micro-batch has got after a duty; nullopt if it is not that duty's turn.
std::optional<PassCheck::Passed> PassCheck::after(CommandList::Duty duty, Passed before) {
  auto turn = [&](Passed needed, Passed then) { return before == needed ? std::optional(then) : std::nullopt; };
  switch (duty) {
  case CommandList::FORWARD_PASS:
    return turn(Passed::Nothing, Passed::Forward);
  case CommandList::BOTH_PASSES:
    return turn(Passed::Nothing, Passed::Everything);
  case CommandList::INPUT_GRADIENTS:
    return turn(Passed::Forward, Passed::InputGradients);
  case CommandList::BACKWARD_PASS:
    return turn(Passed::Forward, Passed::Everything);
  case CommandList::WEIGHT_GRADIENTS:
    return turn(Passed::InputGradients, Passed::Everything);
  default:
    return std::nullopt;
  }
}

std::string PassCheck::pass(const TimedEntry &timed) {
  const TimetableEntry &entry = *timed.entry;
  CommandList::Duty duty = lists.byName.find(entry.list())->second.duty;
  if (duty == CommandList::ONCE || duty == CommandList::EXCHANGE || duty == CommandList::TRANSFER)
    return "";
  Progress &progress = passed[journeyOf(timed)];
  if (timed.isRedo)
    return duty == CommandList::FORWARD_PASS && progress.so == Passed::Forward
               ? ""
               : fmt::format("is redone with {}, and only forward passes that have run can run again",
                             describeEntry(timetableOf(role, redoTimetable), entry));
  std::optional<Passed> next = after(duty, progress.so);
  if (!next)
    return fmt::format("runs {} {}{}", describeEntry(timetable, entry),
                       progress.so == Passed::Everything ? "once more than there is need for" : "before its turn",
                       progress.last ? ", after " + describeEntry(timetable, *progress.last) : "");
  progress = {*next, &entry};
  if (duty == CommandList::FORWARD_PASS || duty == CommandList::INPUT_GRADIENTS)
    return "";
  auto [last, isFirst] = added.try_emplace({timed.step + entry.step(), entry.stage()}, &entry);
  if (!isFirst && !timetable.sums_by_timetable() && last->second->micro_batch() >= entry.micro_batch())
    return fmt::format("adds the gradients of {} behind those of {}; they add in the order of the micro-batches",
                       describeEntry(timetable, entry), describeEntry(timetable, *last->second));
  last->second = &entry;
  return "";
}

/// Checks that each stage that the role runs has processed all micro-batches of each step.
std::string PassCheck::requireAll(int64_t steps, int64_t microBatches) const {
  bool isJudged = timetable.name() == stepTimetable; // other timetables need no backward pass
  std::set<uint32_t> stagesRun;
  for (const auto &[journey, progress] : passed) {
    auto [step, stage, microBatch] = journey;
    stagesRun.insert(stage);
    if (progress.so != Passed::Everything && (isJudged || progress.so != Passed::Forward))
      return fmt::format("leaves micro-batch {} in stage {} without its backward pass after {}", microBatch, stage,
                         describeEntry(timetable, *progress.last));
  }
  for (int64_t step = 0; step < steps; ++step)
    for (uint32_t stage : stagesRun) {
      auto first = passed.lower_bound({step, stage, 0}), end = passed.lower_bound({step, stage + 1, 0});
      if (auto count = std::distance(first, end); count != microBatches)
        return fmt::format("runs {} micro-batches of {} in stage {}", count, microBatches, stage);
    }
  return "";
}

std::string PassCheck::checkEntries(int64_t microBatches) {
  std::string fault;
  forEachEntry(timetable, [&](const TimetableEntry &entry) {
    if (fault.empty())
      fault = checkEntry(entry, microBatches);
  });
  return fault;
}

std::string PassCheck::run(const Unrolled &entries, int64_t steps, int64_t microBatches) {
  bool takesAny = takesMicroBatches(timetable.name());
  if (takesAny && microBatches == 0)
    return "runs no micro-batch";
  passed.clear();
  added.clear();
  for (const TimedEntry &timed : entries)
    if (std::string fault = pass(timed); !fault.empty())
      return fault;
  if (takesAny && passed.empty())
    return fmt::format("runs 0 micro-batches of {}", microBatches);
  return requireAll(steps, takesAny ? microBatches : 0);
}

std::string findPassFault(const Role &role, const Timetable &timetable, const JudgedLists &lists, int64_t stages,
                          int64_t microBatches) {
  if (microBatches == 0)
    forEachEntry(timetable, [&](const TimetableEntry &entry) {
      microBatches = std::max(microBatches, entry.has_micro_batch() ? entry.micro_batch() + 1 : 0);
    });
  PassCheck check(role, timetable, lists, stages);
  std::string fault = check.checkEntries(microBatches);
  int64_t steps = stepsToJudge(role, timetable);
  if (fault.empty())
    for (const Unrolled &entries : runsToJudge(role, timetable, steps))
      if (fault = check.run(entries, steps, microBatches); !fault.empty())
        break;
  return fault.empty() ? "" : fmt::format("role '{}': its {} {}", role.name(), timetable.name(), fault);
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// Whether a copy takes what the stage before or behind has made of its micro-batch.
static bool isHandedOn(const TimedEntry &writer, const TimedEntry &reader, const JudgedList &list) {
  auto [step, stage, microBatch] = journeyOf(writer);
  auto [readStep, readStage, readMicroBatch] = journeyOf(reader);
  bool areNeighbours = stage + 1 == readStage || readStage + 1 == stage;
  return list.duty == CommandList::TRANSFER && areNeighbours && step == readStep && microBatch == readMicroBatch;
}

/// In one run of steps.
static std::string findPlaceFault(const Role &role, const Timetable &timetable, const Unrolled &entries,
                                  const JudgedLists &lists) {
  std::map<std::pair<size_t, uint32_t>, TimedEntry> writers; // of each part in each place
  for (const TimedEntry &timed : entries) {
    const TimetableEntry &entry = *timed.entry;
    const JudgedList &list = lists.byName.find(entry.list())->second;
    for (size_t part : list.reads) {
      uint32_t space = lists.spaces[part], place = placeOf(entry, space);
      auto reads = [&] {
        return fmt::format("role '{}': in its {} {} reads {} of place {} of space '{}'", role.name(), timetable.name(),
                           describeEntry(timetable, entry), lists.describe(part), place,
                           role.spaces(static_cast<int>(space)).name());
      };
      auto writer = writers.find({part, place});
      if (writer == writers.end())
        return reads() + ", which nothing has written";
      bool areForOne = entry.has_micro_batch() && writer->second.entry->has_micro_batch();
      if (areForOne && journeyOf(writer->second) != journeyOf(timed) && !isHandedOn(writer->second, timed, list))
        return fmt::format("{}, where {} has written: the place is taken too early", reads(),
                           describeEntry(timetable, *writer->second.entry));
    }
    for (size_t part : list.writes)
      writers[{part, placeOf(entry, lists.spaces[part])}] = timed;
  }
  return "";
}

std::string findPlaceFault(const Role &role, const Timetable &timetable, const JudgedLists &lists) {
  for (const Unrolled &entries : runsToJudge(role, timetable))
    if (std::string fault = findPlaceFault(role, timetable, entries, lists); !fault.empty())
      return fault;
  return "";
}

} // namespace dtc::abi
