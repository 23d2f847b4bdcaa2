// The validator's part for timetables: bounds, and the checks of runtime/abi/timetable_check.h.
#include "runtime/abi/timetable_check.h"
#include "runtime/abi/timetables.h"
#include "runtime/executor/refuse.h"
#include "runtime/executor/validate.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace dtc {

/// Requires a timetable small enough to be checked quickly.
static void requireBounded(const abi::Role &role, const abi::Timetable &timetable) {
  auto refuse = [&](const std::string &why) {
    refuseProgram(fmt::format("role '{}': its {} {}", role.name(), timetable.name(), why));
  };
  abi::forEachEntry(timetable, [&](const abi::TimetableEntry &entry) {
    if (entry.step() < 0 || entry.step() > ManifestLimits::StepsAhead)
      refuse(fmt::format("runs {} for the step {} ahead; at most {} are accepted",
                         abi::describeEntry(timetable, entry), entry.step(), ManifestLimits::StepsAhead));
    bool isOfStep = timetable.name() == abi::stepTimetable || timetable.name() == abi::redoTimetable;
    if (!isOfStep && (entry.step() != 0 || !entry.turns().empty()))
      refuse(fmt::format("runs {} ahead of its step or in turns, as only training steps do",
                         abi::describeEntry(timetable, entry)));
    if (entry.micro_batch() >= ManifestLimits::Accumulation)
      refuse(fmt::format("runs {}; at most {} micro-batches are accepted", abi::describeEntry(timetable, entry),
                         ManifestLimits::Accumulation));
    if (int64_t steps = abi::stepsOfTurn(entry); steps > ManifestLimits::Turns)
      refuse(fmt::format("runs {} in its first places again after {} steps; at most {} are accepted",
                         abi::describeEntry(timetable, entry), steps, ManifestLimits::Turns));
  });
  int64_t entries = timetable.period_size();
  if (entries * abi::stepsToJudge(role, timetable) > ManifestLimits::Entries)
    refuse(fmt::format("has {} entries, more than are accepted", entries));
}

/// Whether a role adds gradients, or losses in the last stage, in another order than the ascending one of micro-batches.
static bool addsOutOfOrder(const abi::Role &role, const abi::JudgedLists &lists, uint32_t lastStage) {
  std::map<std::pair<uint32_t, bool>, int64_t> last; // micro-batch, by stage, of losses and of gradients
  bool isOut = false;
  abi::forEachEntry(abi::timetableOf(role, abi::stepTimetable), [&](const abi::TimetableEntry &entry) {
    auto list = lists.byName.find(entry.list());
    if (list == lists.byName.end() || !entry.has_micro_batch())
      return;
    abi::CommandList::Duty duty = list->second.duty;
    bool addsLoss = duty == abi::CommandList::FORWARD_PASS && entry.stage() == lastStage;
    if (!addsLoss && duty != abi::CommandList::BACKWARD_PASS && duty != abi::CommandList::WEIGHT_GRADIENTS)
      return;
    auto [before, isFirst] = last.try_emplace({entry.stage(), addsLoss}, entry.micro_batch());
    isOut |= !isFirst && before->second > entry.micro_batch();
    before->second = entry.micro_batch();
  });
  return isOut;
}

/// Timetables that say that sums depend on them are compared more loosely, so it must be true. All roles say it of the
/// same sums, so it is checked for the first of them.
static void requireTrueClaim(const abi::Manifest &manifest, const abi::Role &role, const abi::Timetable &timetable,
                             const abi::JudgedLists &lists) {
  if (!timetable.sums_by_timetable())
    return;
  auto claims = [](const abi::Role &each) { return abi::timetableOf(each, abi::stepTimetable).sums_by_timetable(); };
  bool isStep = timetable.name() == abi::stepTimetable;
  if (isStep && &*std::ranges::find_if(manifest.roles(), claims) != &role)
    return;
  auto lastStage = static_cast<uint32_t>(manifest.stages_size()) - 1;
  auto isOut = [&](const abi::Role &each) { return addsOutOfOrder(each, lists, lastStage); };
  if (!isStep || std::ranges::none_of(manifest.roles(), isOut))
    refuseProgram(fmt::format("role '{}': its {} says that sums over micro-batches depend on its order, and they do not",
                              role.name(), timetable.name()));
}

void validateTimetables(const abi::Manifest &manifest, const abi::Role &role) {
  abi::JudgedLists lists;
  for (const abi::CommandList &list : manifest.lists())
    lists.byName[list.name()].duty = list.duty();
  std::set<std::string_view> names;
  for (const abi::Timetable &timetable : role.timetables()) {
    if (!names.insert(timetable.name()).second)
      refuseProgram(fmt::format("role '{}' has two timetables named '{}'", role.name(), timetable.name()));
    requireBounded(role, timetable);
    requireTrueClaim(manifest, role, timetable, lists);
    bool isStep = timetable.name() == abi::stepTimetable || timetable.name() == abi::redoTimetable;
    if (std::string fault = abi::findPassFault(role, timetable, lists, manifest.stages_size(),
                                               isStep ? manifest.training().accumulation() : 0);
        !fault.empty())
      refuseProgram(fault);
  }
  std::vector<std::string_view> needed{abi::stepTimetable, abi::evaluationTimetable};
  if (manifest.has_generation())
    needed = {abi::promptTimetable};
  for (std::string_view name : needed)
    if (!names.contains(name))
      refuseProgram(fmt::format("role '{}' has no timetable '{}'", role.name(), name));
}

} // namespace dtc
