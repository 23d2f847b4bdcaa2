// The validator's part for spaces of several places: which parts of them each list reads and writes, so that
// runtime/abi/timetable_check.h can judge timetables; and for what runs side by side.
//
// Only what lists say is looked at: in terms of whole ranges, whatever their gaps. What the host fills is left out.
#include "runtime/abi/addresses.h"
#include "runtime/abi/commands.h"
#include "runtime/abi/tensors.h"
#include "runtime/abi/timetable_check.h"
#include "runtime/abi/timetables.h"
#include "runtime/executor/refuse.h"
#include "runtime/executor/validate.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace dtc {

namespace {

using abi::TimetableEntry;

/// Ranges of addresses, of which no two touch each other.
class Ranges {
public:
  void add(uint64_t begin, uint64_t end) {
    auto after = ranges.upper_bound(end);
    while (after != ranges.begin() && std::prev(after)->second >= begin) {
      auto touched = std::prev(after);
      begin = std::min(begin, touched->first);
      end = std::max(end, touched->second);
      ranges.erase(touched);
    }
    if (begin < end)
      ranges.emplace(begin, end);
  }

  /// Calls visit(begin, end) for the parts of a range that no range here has.
  template <typename Visit> void forEachGap(uint64_t begin, uint64_t end, Visit visit) const {
    auto next = ranges.upper_bound(begin);
    if (next != ranges.begin() && std::prev(next)->second > begin)
      begin = std::prev(next)->second;
    for (; begin < end; ++next) {
      uint64_t until = next == ranges.end() ? end : std::min(end, next->first);
      if (begin < until)
        visit(begin, until);
      if (next == ranges.end())
        return;
      begin = std::max(begin, next->second);
    }
  }

  bool overlaps(uint64_t begin, uint64_t end) const {
    auto next = ranges.lower_bound(end);
    return next != ranges.begin() && std::prev(next)->second > begin;
  }

  auto begin() const { return ranges.begin(); }
  auto end() const { return ranges.end(); }

private:
  std::map<uint64_t, uint64_t> ranges; // begin and end
};

/// What a list touches, whatever runs before and after it.
struct Footprint {
  Ranges reads; ///< before it has written there itself
  Ranges writes;
  std::set<uint32_t> tokens;
};

/// Of those ranges that `isWanted` says.
template <typename Wanted>
Footprint footprintOf(const abi::CommandList &list, const abi::Manifest &manifest, Wanted isWanted) {
  Footprint footprint;
  for (const abi::Command &command : list.commands()) {
    abi::forEachRead(manifest, command, [&](uint64_t address, uint64_t bytes) {
      if (isWanted(address))
        footprint.writes.forEachGap(address, address + bytes,
                                    [&](uint64_t begin, uint64_t end) { footprint.reads.add(begin, end); });
    });
    abi::forEachWritten(manifest, command, [&](uint64_t address, uint64_t bytes) {
      if (isWanted(address))
        footprint.writes.add(address, address + bytes);
    });
    if (abi::isStart(command) || command.has_wait())
      footprint.tokens.insert(abi::tokenOf(command));
  }
  return footprint;
}

/// Memory of several places, cut where any list's range or a tensor begins or ends.
class PlaceChecker {
public:
  PlaceChecker(const abi::Manifest &manifest, const abi::Role &role);

  bool hasPlaces() const { return std::ranges::any_of(role.spaces(), hasSeveral); }
  void check(const abi::Timetable &timetable) const;

private:
  static bool hasSeveral(const abi::Space &space) { return space.places() > 1; }
  const abi::Space &spaceOf(uint64_t address) const { return role.spaces(static_cast<int>(abi::spaceOf(address))); }
  void cut();
  std::vector<size_t> partsOf(const Ranges &ranges) const;
  bool isFilled(uint64_t address) const;

  const abi::Role &role;
  std::map<std::string_view, Footprint> footprints; // of the lists that the role runs
  std::vector<uint64_t> cuts;                       // where parts begin or end
  abi::JudgedLists lists;
};

} // namespace

PlaceChecker::PlaceChecker(const abi::Manifest &manifest, const abi::Role &role) : role(role) {
  if (!hasPlaces())
    return;
  std::set<std::string_view> used;
  for (const abi::Timetable &timetable : role.timetables())
    abi::forEachEntry(timetable, [&](const TimetableEntry &entry) { used.insert(entry.list()); });
  for (const abi::CommandList &list : manifest.lists())
    if (used.contains(list.name()))
      footprints.emplace(list.name(),
                         footprintOf(list, manifest, [&](uint64_t address) { return hasSeveral(spaceOf(address)); }));
  cut();
}

void PlaceChecker::cut() {
  for (const auto &[name, footprint] : footprints)
    for (const Ranges *ranges : {&footprint.reads, &footprint.writes})
      for (auto [begin, end] : *ranges) {
        cuts.push_back(begin);
        cuts.push_back(end);
      }
  for (const abi::Tensor &tensor : role.tensors())
    if (hasSeveral(spaceOf(tensor.address())))
      cuts.insert(cuts.end(), {tensor.address(), tensor.address() + abi::bytesOf(tensor)});
  std::ranges::sort(cuts);
  cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
  for (uint64_t address : cuts)
    lists.spaces.push_back(abi::spaceOf(address));
  lists.describe = [this](size_t part) { return fmt::format("byte {}", abi::offsetOf(cuts[part])); };
  for (const auto &[name, footprint] : footprints)
    lists.byName[name] = {abi::CommandList::ONCE, partsOf(footprint.reads), partsOf(footprint.writes)};
}

/// A part is known by the number of the cut where it begins. What the host fills has none.
std::vector<size_t> PlaceChecker::partsOf(const Ranges &ranges) const {
  std::vector<size_t> numbers;
  for (auto [begin, end] : ranges)
    for (auto at = std::ranges::lower_bound(cuts, begin); at != cuts.end() && *at < end; ++at)
      if (!isFilled(*at))
        numbers.push_back(static_cast<size_t>(at - cuts.begin()));
  return numbers;
}

bool PlaceChecker::isFilled(uint64_t address) const {
  return std::ranges::any_of(role.tensors(), [&](const abi::Tensor &tensor) {
    return address >= tensor.address() && address - tensor.address() < abi::bytesOf(tensor);
  });
}

void PlaceChecker::check(const abi::Timetable &timetable) const {
  int64_t work = 0;
  for (const abi::TimedEntry &timed : abi::unroll(timetable, abi::stepsToJudge(timetable))) {
    const abi::JudgedList &list = lists.byName.at(timed.entry->list());
    work += static_cast<int64_t>(list.reads.size() + list.writes.size());
    if (work > ManifestLimits::PlaceWork)
      refuseProgram(
          fmt::format("role '{}': its {} touches more of its places than is accepted", role.name(), timetable.name()));
  }
  if (std::string fault = abi::findPlaceFault(role, timetable, lists); !fault.empty())
    refuseProgram(fault);
}

//===----------------------------------------------------------------------===//
// Side by side
//===----------------------------------------------------------------------===//

/// The lists of two entries touch memory that one of them writes, or know a token of each other.
static bool meet(const TimetableEntry &a, const Footprint &ofA, const TimetableEntry &b, const Footprint &ofB) {
  auto isSamePlace = [&](uint64_t address) {
    uint32_t space = abi::spaceOf(address);
    return abi::placeOf(a, space) == abi::placeOf(b, space);
  };
  auto overlap = [&](const Ranges &some, const Ranges &others) {
    return std::ranges::any_of(some, [&](const auto &range) {
      return isSamePlace(range.first) && others.overlaps(range.first, range.second);
    });
  };
  return overlap(ofA.writes, ofB.reads) || overlap(ofA.writes, ofB.writes) || overlap(ofA.reads, ofB.writes) ||
         std::ranges::any_of(ofA.tokens, [&](uint32_t token) { return ofB.tokens.contains(token); });
}

static void validateBeside(const abi::Manifest &manifest, const abi::Role &role, const abi::Timetable &timetable) {
  std::map<std::string_view, Footprint> footprints;
  auto footprint = [&](const TimetableEntry &entry) -> const Footprint & {
    auto [known, isNew] = footprints.try_emplace(entry.list());
    auto list = std::ranges::find(manifest.lists(), entry.list(), [](const auto &each) { return each.name(); });
    if (isNew)
      known->second = footprintOf(*list, manifest, [](uint64_t) { return true; });
    return known->second;
  };
  for (const auto *part : {&timetable.startup(), &timetable.period(), &timetable.drain()})
    for (int i = 0; i < part->size(); ++i) {
      const TimetableEntry &entry = part->Get(i);
      if (!entry.beside())
        continue;
      if (i == 0 || meet(part->Get(i - 1), footprint(part->Get(i - 1)), entry, footprint(entry)))
        refuseProgram(fmt::format(
            "role '{}': in its {} {} cannot run beside {}", role.name(), timetable.name(),
            abi::describeEntry(timetable, entry),
            i == 0 ? "nothing" : abi::describeEntry(timetable, part->Get(i - 1)) + ": they meet in memory or tokens"));
    }
}

void validatePlacesInTime(const abi::Manifest &manifest, const abi::Role &role) {
  PlaceChecker checker(manifest, role);
  for (const abi::Timetable &timetable : role.timetables()) {
    if (checker.hasPlaces())
      checker.check(timetable);
    validateBeside(manifest, role, timetable);
  }
}

} // namespace dtc
