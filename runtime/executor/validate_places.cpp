// The validator's part for spaces of several places (which parts of them each list reads and writes, for
// runtime/abi/timetable_check.h), for commands in flight across lists, and for entries that overlap.
//
// It considers only what lists say, in whole ranges, ignoring gaps. Memory that the host fills is left out.
#include "runtime/abi/addresses.h"
#include "runtime/abi/commands.h"
#include "runtime/abi/tensors.h"
#include "runtime/abi/timetable_check.h"
#include "runtime/abi/timetables.h"
#include "runtime/executor/ranges.h"
#include "runtime/executor/refuse.h"
#include "runtime/executor/validate.h"

#include <algorithm>
#include <climits>
#include <fmt/format.h>
#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace dtc {

namespace {

using abi::TimetableEntry;

/// What a list accesses, whatever runs before and after it.
struct Footprint {
  Ranges reads; ///< before writing there itself
  Ranges writes;
  std::set<uint32_t> tokens;
};

/// Only ranges for which `isWanted` holds.
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

/// Spaces of several places, divided wherever a list's range or a tensor begins or ends.
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

  const abi::Role &role;
  std::map<std::string_view, Footprint> footprints; // of the lists that the role runs
  std::vector<uint64_t> cuts;                       // where parts begin or end
  Ranges filled;                                    // by the host
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
    if (used.contains(list.name())) {
      footprints.emplace(list.name(),
                         footprintOf(list, manifest, [&](uint64_t address) { return hasSeveral(spaceOf(address)); }));
      lists.byName[list.name()].duty = list.duty();
    }
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
    if (hasSeveral(spaceOf(tensor.address()))) {
      uint64_t end = tensor.address() + abi::bytesOf(tensor);
      cuts.insert(cuts.end(), {tensor.address(), end});
      filled.add(tensor.address(), end);
    }
  std::ranges::sort(cuts);
  cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
  for (uint64_t address : cuts)
    lists.spaces.push_back(abi::spaceOf(address));
  lists.describe = [this](size_t part) { return fmt::format("byte {}", abi::offsetOf(cuts[part])); };
  for (const auto &[name, footprint] : footprints) {
    abi::JudgedList &list = lists.byName[name];
    list.reads = partsOf(footprint.reads);
    list.writes = partsOf(footprint.writes);
  }
}

/// A part's number is that of the cut where it begins. Memory that the host fills is not a part.
std::vector<size_t> PlaceChecker::partsOf(const Ranges &ranges) const {
  std::vector<size_t> numbers;
  for (auto [begin, end] : ranges)
    for (auto at = std::ranges::lower_bound(cuts, begin); at != cuts.end() && *at < end; ++at)
      if (!filled.overlaps(*at, *at + 1))
        numbers.push_back(static_cast<size_t>(at - cuts.begin()));
  return numbers;
}

void PlaceChecker::check(const abi::Timetable &timetable) const {
  int64_t work = 0;
  for (const abi::Unrolled &entries : abi::runsToJudge(role, timetable))
    for (const abi::TimedEntry &timed : entries) {
      const abi::JudgedList &list = lists.byName.at(timed.entry->list());
      work += static_cast<int64_t>(list.reads.size() + list.writes.size());
      if (work > ManifestLimits::PlaceWork)
        refuseProgram(fmt::format("role '{}': its {} touches more of its places than is accepted", role.name(),
                                  timetable.name()));
    }
  if (std::string fault = abi::findPlaceFault(role, timetable, lists); !fault.empty())
    refuseProgram(fault);
}

//===----------------------------------------------------------------------===//
// In flight
//===----------------------------------------------------------------------===//

namespace {

/// How a list is involved with commands that are in flight across lists.
struct Passing {
  std::map<uint32_t, std::vector<const abi::Command *>> left; ///< commands that it starts without waiting, by token
  std::map<uint32_t, int> awaited;                            ///< tokens from other lists, and where it waits for them
  struct Touch {
    int at; ///< command
    uint64_t begin, end;
    bool writes;
  };
  std::vector<Touch> touches; ///< of memory that commands in flight across lists may use
};

/// Between a start and its wait nothing writes what it reads, and nothing touches what it writes. This class checks the
/// lists between the one that starts and the one that waits, and the one that waits. Within one list the interpreter
/// checks it.
class FlightChecker {
public:
  FlightChecker(const abi::Manifest &manifest, const abi::Role &role);

  bool isNeeded() const { return flown.begin() != flown.end(); }
  void check(const abi::Timetable &timetable);

private:
  struct Flight {
    const abi::Command *command;
    const TimetableEntry *entry; ///< the entry that started it
  };

  void findPassing(const abi::CommandList &list, Passing &passing) const;
  void findTouches(const abi::CommandList &list, Passing &passing) const;
  void run(const TimetableEntry &entry, const abi::Timetable &timetable);
  void hold(const TimetableEntry &entry, const Flight &flight, int until, const abi::Timetable &timetable) const;

  const abi::Manifest &manifest;
  const abi::Role &role;
  std::map<std::string_view, Passing> passings;                          // of the lists that the role runs
  Ranges flown;                                                          // memory that any flight uses
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Flight>> underWay; // by token and its place
  int64_t work = 0;                                                      // of a timetable
};

} // namespace

FlightChecker::FlightChecker(const abi::Manifest &manifest, const abi::Role &role) : manifest(manifest), role(role) {
  for (const abi::Timetable &timetable : role.timetables())
    abi::forEachEntry(timetable, [&](const TimetableEntry &entry) { passings.try_emplace(entry.list()); });
  for (const abi::CommandList &list : manifest.lists())
    if (auto passing = passings.find(list.name()); passing != passings.end())
      findPassing(list, passing->second);
  for (const auto &[name, passing] : passings)
    for (const auto &[token, commands] : passing.left)
      for (const abi::Command *command : commands)
        abi::forEachRange(
            manifest, *command, [&](uint64_t begin, uint64_t bytes) { flown.add(begin, begin + bytes); },
            [&](uint64_t begin, uint64_t bytes) { flown.add(begin, begin + bytes); });
  if (!isNeeded())
    return;
  for (const abi::CommandList &list : manifest.lists())
    if (auto passing = passings.find(list.name()); passing != passings.end())
      findTouches(list, passing->second);
}

void FlightChecker::findPassing(const abi::CommandList &list, Passing &passing) const {
  for (int at = 0; at < list.commands_size(); ++at) {
    const abi::Command &command = list.commands(at);
    if (abi::isStart(command))
      passing.left[abi::tokenOf(command)].push_back(&command);
    else if (command.has_wait() && passing.left.erase(command.wait().token()) == 0)
      passing.awaited.try_emplace(command.wait().token(), at);
  }
}

void FlightChecker::findTouches(const abi::CommandList &list, Passing &passing) const {
  for (int at = 0; at < list.commands_size(); ++at) {
    auto add = [&](bool writes) {
      return [&, writes](uint64_t begin, uint64_t bytes) {
        if (flown.overlaps(begin, begin + bytes))
          passing.touches.push_back({at, begin, begin + bytes, writes});
      };
    };
    abi::forEachRange(manifest, list.commands(at), add(false), add(true));
  }
}

/// Checks that an entry leaves a flight's operands alone before its command `until`.
void FlightChecker::hold(const TimetableEntry &entry, const Flight &flight, int until,
                         const abi::Timetable &timetable) const {
  const Passing &own = passings.at(entry.list());
  auto against = [&](bool isResult) {
    return [&, isResult](uint64_t begin, uint64_t bytes) {
      uint32_t space = abi::spaceOf(begin), place = abi::placeOf(entry, space);
      if (place != abi::placeOf(*flight.entry, space))
        return;
      for (const Passing::Touch &touch : own.touches)
        if (touch.at < until && (touch.writes || isResult) && touch.begin < begin + bytes && begin < touch.end)
          refuseProgram(fmt::format(
              "role '{}': in its {} {} {} byte {} of place {} of space '{}' (command {}) while what {} has started "
              "there is under way, and is not waited for before",
              role.name(), timetable.name(), abi::describeEntry(timetable, entry), touch.writes ? "writes" : "reads",
              abi::offsetOf(std::max(touch.begin, begin)), place, role.spaces(static_cast<int>(space)).name(), touch.at,
              abi::describeEntry(timetable, *flight.entry)));
    };
  };
  abi::forEachRange(manifest, *flight.command, against(false), against(true));
}

void FlightChecker::run(const TimetableEntry &entry, const abi::Timetable &timetable) {
  const Passing &own = passings.at(entry.list());
  for (auto tokenAndFlights = underWay.begin(); tokenAndFlights != underWay.end();) {
    const auto &[key, flights] = *tokenAndFlights;
    auto [token, place] = key;
    auto awaited = own.awaited.find(token);
    bool isAwaited =
        awaited != own.awaited.end() && abi::placeOf(entry, abi::tokenSpaceOf(*flights.front().command)) == place;
    work += static_cast<int64_t>((own.touches.size() + 1) * flights.size());
    if (work > ManifestLimits::TokenWork)
      refuseProgram(
          fmt::format("role '{}': its {} leaves more under way from list to list than is accepted", role.name(),
                      timetable.name()));
    for (const Flight &flight : flights)
      hold(entry, flight, isAwaited ? awaited->second : INT_MAX, timetable);
    tokenAndFlights = isAwaited ? underWay.erase(tokenAndFlights) : std::next(tokenAndFlights);
  }
  for (const auto &[token, commands] : own.left)
    for (const abi::Command *command : commands)
      underWay[{token, abi::placeOf(entry, abi::tokenSpaceOf(*command))}].push_back({command, &entry});
}

void FlightChecker::check(const abi::Timetable &timetable) {
  work = 0;
  for (const abi::Unrolled &entries : abi::runsToJudge(role, timetable)) {
    underWay.clear();
    for (const abi::TimedEntry &timed : entries)
      run(*timed.entry, timetable);
  }
  underWay.clear();
}

//===----------------------------------------------------------------------===//
// Overlapping entries
//===----------------------------------------------------------------------===//

/// Whether the lists of two entries touch memory that one of them writes, or share a token.
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
  auto refuse = [&](const TimetableEntry &entry, const std::string &other) {
    refuseProgram(fmt::format("role '{}': in its {} {} cannot run beside {}", role.name(), timetable.name(),
                              abi::describeEntry(timetable, entry), other));
  };
  if (!timetable.period().empty() && timetable.period(0).beside())
    refuse(timetable.period(0), "nothing");
  if (std::ranges::none_of(timetable.period(), &TimetableEntry::beside))
    return;
  for (const abi::Unrolled &entries : abi::runsToJudge(role, timetable)) {
    const TimetableEntry *before = nullptr;
    for (const abi::TimedEntry &timed : entries) {
      if (timed.entry->beside() && before && meet(*before, footprint(*before), *timed.entry, footprint(*timed.entry)))
        refuse(*timed.entry, abi::describeEntry(timetable, *before) + ": they meet in memory or tokens");
      before = timed.entry;
    }
  }
}

void validatePlacesInTime(const abi::Manifest &manifest, const abi::Role &role) {
  PlaceChecker checker(manifest, role);
  FlightChecker flights(manifest, role);
  for (const abi::Timetable &timetable : role.timetables()) {
    if (checker.hasPlaces())
      checker.check(timetable);
    if (flights.isNeeded())
      flights.check(timetable);
    validateBeside(manifest, role, timetable);
  }
}

} // namespace dtc
