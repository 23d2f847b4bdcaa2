// The validator's part for timetables: bounds, and the checks of runtime/abi/timetable_check.h.
#include "runtime/abi/timetable_check.h"
#include "runtime/abi/timetables.h"
#include "runtime/executor/refuse.h"
#include "runtime/executor/validate.h"

#include <fmt/format.h>
#include <set>
#include <string_view>
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
    if (entry.micro_batch() >= ManifestLimits::Accumulation)
      refuse(fmt::format("runs {}; at most {} micro-batches are accepted", abi::describeEntry(timetable, entry),
                         ManifestLimits::Accumulation));
  });
  int64_t entries = timetable.startup_size() + timetable.period_size() + timetable.drain_size();
  if (entries * abi::stepsToJudge(timetable) > ManifestLimits::Entries)
    refuse(fmt::format("has {} entries, more than are accepted", entries));
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
    bool isStep = timetable.name() == abi::stepTimetable;
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
