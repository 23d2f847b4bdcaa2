// The validator's part for what runs when.
#include "runtime/abi/timetables.h"
#include "runtime/executor/refuse.h"
#include "runtime/executor/validate.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

namespace dtc {

namespace {

using abi::CommandList;
using abi::TimetableEntry;

class TimetableChecker {
public:
  TimetableChecker(const abi::Manifest &manifest, const abi::Role &role, const abi::Timetable &timetable);

  /// `microBatches`: of a step; 0: as many as the entries name.
  void check(int64_t microBatches);

private:
  enum class Passed { Nothing, Forward, InputGradients, Everything };
  /// A micro-batch of one step on its way through a stage.
  using Journey = std::tuple<int64_t, uint32_t, int64_t>; // step, stage, micro-batch

  static std::optional<Passed> after(CommandList::Duty duty, Passed before);
  void checkEntry(const TimetableEntry &entry, int64_t microBatches) const;
  void checkPasses(int64_t microBatches);
  void pass(const abi::TimedEntry &timed);
  void requireAll(int64_t steps, int64_t microBatches) const;
  [[noreturn]] void refuse(const std::string &why) const {
    refuseProgram(fmt::format("role '{}': its {} {}", role.name(), timetable.name(), why));
  }

  const abi::Manifest &manifest;
  const abi::Role &role;
  const abi::Timetable &timetable;
  std::map<std::string_view, const CommandList *> lists;
  std::map<Journey, Passed> passed;
  std::map<std::pair<int64_t, uint32_t>, int64_t> added; // step and stage: the micro-batch whose gradients came last
};

} // namespace

TimetableChecker::TimetableChecker(const abi::Manifest &manifest, const abi::Role &role,
                                   const abi::Timetable &timetable)
    : manifest(manifest), role(role), timetable(timetable) {
  for (const CommandList &list : manifest.lists())
    lists.emplace(list.name(), &list);
}

void TimetableChecker::checkEntry(const TimetableEntry &entry, int64_t microBatches) const {
  auto list = lists.find(entry.list());
  if (list == lists.end())
    refuse(fmt::format("runs a list '{}', which does not exist", entry.list()));
  bool takesOne = list->second->duty() != CommandList::ONCE;
  if (takesOne != entry.has_micro_batch())
    refuse(fmt::format("runs list '{}' {} a micro-batch, which {}", entry.list(), takesOne ? "without" : "with",
                       takesOne ? "is for one" : "is for none"));
  if (entry.stage() >= uint32_t(manifest.stages_size()))
    refuse(fmt::format("runs list '{}' for stage {} of {}", entry.list(), entry.stage(), manifest.stages_size()));
  if (entry.places_size() > role.spaces_size())
    refuse(fmt::format("runs list '{}' in places of {} spaces of {}", entry.list(), entry.places_size(),
                       role.spaces_size()));
  for (int space = 0; space < entry.places_size(); ++space)
    if (entry.places(space) >= role.spaces(space).places())
      refuse(fmt::format("runs list '{}' in place {} of space '{}', which has {}", entry.list(), entry.places(space),
                         role.spaces(space).name(), role.spaces(space).places()));
  if (entry.step() < 0 || entry.step() > ManifestLimits::StepsAhead)
    refuse(fmt::format("runs list '{}' for the step {} ahead; at most {} are accepted", entry.list(), entry.step(),
                       ManifestLimits::StepsAhead));
  if (entry.has_micro_batch() && (entry.micro_batch() < 0 || entry.micro_batch() >= microBatches))
    refuse(fmt::format("runs list '{}' on micro-batch {} of {}", entry.list(), entry.micro_batch(), microBatches));
}

/// How far a micro-batch is after a duty whose turn it is; nothing where it is not.
std::optional<TimetableChecker::Passed> TimetableChecker::after(CommandList::Duty duty, Passed before) {
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

void TimetableChecker::pass(const abi::TimedEntry &timed) {
  const TimetableEntry &entry = *timed.entry;
  const CommandList &list = *lists.at(entry.list());
  if (list.duty() == CommandList::ONCE || list.duty() == CommandList::TRANSFER)
    return;
  int64_t step = timed.step + entry.step();
  Passed &so = passed[{step, entry.stage(), entry.micro_batch()}];
  std::optional<Passed> next = after(list.duty(), so);
  if (!next)
    refuse(fmt::format("runs list '{}' on micro-batch {} in stage {} {}", entry.list(), entry.micro_batch(),
                       entry.stage(),
                       so == Passed::Everything ? "once more than there is need for" : "before its turn"));
  so = *next;
  if (list.duty() == CommandList::FORWARD_PASS || list.duty() == CommandList::INPUT_GRADIENTS)
    return;
  auto [last, isFirst] = added.try_emplace({step, entry.stage()}, entry.micro_batch());
  if (!isFirst && last->second >= entry.micro_batch())
    refuse(fmt::format("adds the gradients of micro-batch {} in stage {} behind those of {}; they add in the order of "
                       "the micro-batches",
                       entry.micro_batch(), entry.stage(), last->second));
  last->second = entry.micro_batch();
}

/// Each stage that the role runs at all has passed all micro-batches of each step.
void TimetableChecker::requireAll(int64_t steps, int64_t microBatches) const {
  bool isJudged = timetable.name() == abi::stepTimetable; // elsewhere nobody needs a backward pass
  std::set<uint32_t> stages;
  for (const auto &[journey, so] : passed) {
    auto [step, stage, microBatch] = journey;
    stages.insert(stage);
    if (step >= steps)
      refuse(fmt::format("begins micro-batch {} in stage {} of a step that it does not end", microBatch, stage));
    if (so != Passed::Everything && (isJudged || so != Passed::Forward))
      refuse(fmt::format("leaves micro-batch {} in stage {} without its backward pass", microBatch, stage));
  }
  for (int64_t step = 0; step < steps; ++step)
    for (uint32_t stage : stages) {
      auto first = passed.lower_bound({step, stage, 0}), end = passed.lower_bound({step, stage + 1, 0});
      if (auto count = std::distance(first, end); count != microBatches)
        refuse(fmt::format("runs {} micro-batches of {} in stage {}", count, microBatches, stage));
    }
}

void TimetableChecker::checkPasses(int64_t microBatches) {
  int64_t steps = abi::stepsToJudge(timetable);
  for (const abi::TimedEntry &timed : abi::unroll(timetable, steps))
    pass(timed);
  if (microBatches > 0 && passed.empty())
    refuse(fmt::format("runs 0 micro-batches of {}", microBatches));
  requireAll(steps, microBatches);
}

void TimetableChecker::check(int64_t microBatches) {
  int64_t entries = timetable.startup_size() + timetable.period_size() + timetable.drain_size(), most = 0;
  abi::forEachEntry(timetable, [&](const TimetableEntry &entry) {
    most = std::max(most, std::min(entry.micro_batch(), ManifestLimits::Accumulation - 1) + 1);
  });
  int64_t count = microBatches == 0 ? most : microBatches;
  abi::forEachEntry(timetable, [&](const TimetableEntry &entry) { checkEntry(entry, count); });
  if (entries * abi::stepsToJudge(timetable) > ManifestLimits::Entries)
    refuse(fmt::format("has {} entries, more than are accepted", entries));
  bool takesAny = timetable.name() != abi::refreshTimetable;
  if (takesAny && count == 0)
    refuse("runs no micro-batch");
  checkPasses(takesAny ? count : 0);
}

void validateTimetables(const abi::Manifest &manifest, const abi::Role &role) {
  std::set<std::string_view> names;
  for (const abi::Timetable &timetable : role.timetables()) {
    if (!names.insert(timetable.name()).second)
      refuseProgram(fmt::format("role '{}' has two timetables named '{}'", role.name(), timetable.name()));
    bool isStep = timetable.name() == abi::stepTimetable;
    TimetableChecker(manifest, role, timetable).check(isStep ? manifest.training().accumulation() : 0);
  }
  for (std::string_view name : {abi::stepTimetable, abi::evaluationTimetable})
    if (!names.contains(name))
      refuseProgram(fmt::format("role '{}' has no timetable '{}'", role.name(), name));
}

} // namespace dtc
