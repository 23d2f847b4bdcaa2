#include "timing/events/memory.h"

#include "runtime/abi/addresses.h"
#include "runtime/abi/tensors.h"
#include "runtime/abi/timetables.h"
#include "runtime/abi/written.h"

#include <algorithm>
#include <map>
#include <queue>

namespace dtc::timing {

namespace {

struct Access {
  uint64_t address, bytes;
  bool writes;
};

/// A command as the memory sees it.
struct Touch {
  enum Kind : uint8_t { Plain, Start, Wait } kind = Plain;
  bool keepsRest = false; ///< some of what it writes may stay as it was
  uint32_t token = 0, tokenSpace = 0;
  std::vector<Access> accesses; ///< reads first
};
using Touches = std::vector<Touch>;

/// Bytes of ranges; a byte in several counts once.
uint64_t unionBytes(std::vector<Access> ranges) {
  std::ranges::sort(ranges, {}, &Access::address);
  uint64_t bytes = 0, end = 0;
  for (const Access &range : ranges) {
    uint64_t begin = std::max(range.address, end);
    end = std::max(end, range.address + range.bytes);
    bytes += end - std::min(begin, end);
  }
  return bytes;
}

/// A view's range has gaps, which belong to another value; and a command that reads more than its inputs adds to what
/// is already there.
bool keepsRest(const abi::Command &command, const std::vector<Access> &read, const std::vector<Access> &written) {
  return command.has_launch()
             ? command.launch().has_grid_count() || unionBytes(written) > command.work().bytes_written() ||
                   command.work().bytes_read() > unionBytes(read)
             : command.start().has_counts();
}

Touches touchesOf(const abi::Manifest &manifest, const abi::CommandList &list) {
  Touches touches;
  for (const abi::Command &command : list.commands()) {
    Touch &touch = touches.emplace_back();
    if (command.has_wait() || abi::isStart(command)) {
      touch.kind = command.has_wait() ? Touch::Wait : Touch::Start;
      touch.token = abi::tokenOf(command);
      touch.tokenSpace = abi::tokenSpaceOf(command);
    }
    if (command.has_wait())
      continue;
    std::vector<Access> written;
    abi::forEachRange(
        manifest, command,
        [&](uint64_t address, uint64_t bytes) {
          touch.accesses.push_back({address, bytes, false});
        },
        [&](uint64_t address, uint64_t bytes) {
          written.push_back({address, bytes, true});
        });
    touch.keepsRest = keepsRest(command, touch.accesses, written);
    touch.accesses.insert(touch.accesses.end(), written.begin(), written.end());
  }
  return touches;
}

/// Parts of the arena that are in use, each with when its use begins and ends.
class Uses {
public:
  explicit Uses(std::vector<LiveRange> &over) : over(over) {}

  /// What was there ends with its last use, unless that is this command: it works in place.
  void write(uint64_t begin, uint64_t end, size_t at) {
    cut(begin, end);
    for (auto use = ranges.lower_bound(begin); use != ranges.end() && use->first < end;)
      if (use->second.last == at) {
        ++use;
      } else {
        over.push_back({use->first, use->second.end, use->second.first, use->second.last});
        use = ranges.erase(use);
      }
    fillGaps(begin, end, at, at);
  }

  /// What no command has written has been there since `since`.
  void touch(uint64_t begin, uint64_t end, size_t since, size_t at) {
    cut(begin, end);
    for (auto use = ranges.lower_bound(begin); use != ranges.end() && use->first < end; ++use)
      use->second.last = at;
    fillGaps(begin, end, since, at);
  }

  void finish() {
    for (const auto &[begin, use] : ranges)
      over.push_back({begin, use.end, use.first, use.last});
    ranges.clear();
  }

private:
  struct Use {
    uint64_t end;
    size_t first, last;
  };

  /// Afterwards no range crosses either bound.
  void cut(uint64_t begin, uint64_t end) {
    for (uint64_t bound : {begin, end}) {
      auto use = ranges.upper_bound(bound);
      if (use == ranges.begin())
        continue;
      --use;
      if (use->first == bound || use->second.end <= bound)
        continue;
      ranges[bound] = use->second;
      use->second.end = bound;
    }
  }

  void fillGaps(uint64_t begin, uint64_t end, size_t first, size_t last) {
    auto use = ranges.lower_bound(begin);
    while (begin < end) {
      uint64_t next = use == ranges.end() ? end : std::min(use->first, end);
      if (begin < next)
        ranges.emplace_hint(use, begin, Use{next, first, last});
      if (next == end)
        return;
      begin = use->second.end;
      ++use;
    }
  }

  std::map<uint64_t, Use> ranges; ///< by where they begin; they do not overlap
  std::vector<LiveRange> &over;
};

/// Walks a step's entries.
class Walk {
public:
  Walk(const abi::Manifest &manifest, const abi::Role &role, const std::vector<uint64_t> &tensorEnds,
       std::vector<LiveRange> &over)
      : role(role), tensorEnds(tensorEnds), uses(over) {
    for (const abi::CommandList &list : manifest.lists())
      for (const abi::Command &command : list.commands())
        tokens = std::max(tokens, 1 + abi::tokenOf(command));
  }

  void run(const abi::TimetableEntry &entry, const Touches &touches) {
    for (const Touch &touch : touches) {
      uint32_t token = touch.token + tokens * abi::placeOf(entry, touch.tokenSpace);
      if (touch.kind == Touch::Wait)
        for (auto [begin, end] : std::exchange(underWay[token], {}))
          uses.touch(begin, end, at, at);
      for (const Access &access : touch.accesses)
        if (auto [begin, end] = placeOf(entry, access); begin < end) {
          if (access.writes && !touch.keepsRest)
            uses.write(begin, end, at);
          else
            uses.touch(begin, end, access.writes ? at : 0, at);
          if (touch.kind == Touch::Start)
            underWay[token].emplace_back(begin, end);
        }
      ++at;
    }
  }

  void finish() { uses.finish(); }

private:
  /// Leaves out tensors, which are before the rest. The host's memory is not part of the arena.
  std::pair<uint64_t, uint64_t> placeOf(const abi::TimetableEntry &entry, const Access &access) const {
    uint32_t space = abi::spaceOf(access.address);
    if (role.spaces(static_cast<int>(space)).kind() == abi::Space::HOST)
      return {0, 0};
    uint64_t begin = std::max(abi::offsetOf(access.address), tensorEnds[space]),
             end = abi::offsetOf(access.address) + access.bytes,
             base = abi::arenaOffset(role, abi::addressOf(space, 0), abi::placeOf(entry, space));
    return {base + begin, base + std::max(begin, end)};
  }

  const abi::Role &role;
  const std::vector<uint64_t> &tensorEnds;
  Uses uses;
  uint32_t tokens = 0;                                                     ///< all of one place are smaller
  std::map<uint32_t, std::vector<std::pair<uint64_t, uint64_t>>> underWay; ///< by token: operands and results
  size_t at = 0;
};

uint64_t roundUp(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

/// Ends in memory are rounded up to multiples of this.
uint64_t placeUnit(const abi::Role &role) { return std::max<uint64_t>(1, role.unit()); }

/// The space in which a byte of the arena lies.
size_t spaceAt(const abi::Role &role, uint64_t byte) {
  auto holds = [&](const abi::Space &space) {
    return space.kind() != abi::Space::HOST && byte >= space.base() &&
           byte < space.base() + space.stride() * space.places();
  };
  return static_cast<size_t>(std::ranges::find_if(role.spaces(), holds) - role.spaces().begin());
}

/// Where in each space tensors end and the rest begins, from the space's beginning. If a space has several places, each
/// belongs to the rest entirely.
std::vector<uint64_t> tensorEndsOf(const abi::Role &role) {
  std::vector<uint64_t> ends(static_cast<size_t>(role.spaces_size()));
  for (const abi::Tensor &tensor : role.tensors())
    if (uint32_t space = abi::spaceOf(tensor.address()); role.spaces(static_cast<int>(space)).places() == 1)
      ends[space] =
          std::max(ends[space], roundUp(abi::offsetOf(tensor.address()) + abi::bytesOf(tensor), placeUnit(role)));
  return ends;
}

/// Adds up what is in use at each command.
void addLive(std::vector<uint64_t> &live, const std::vector<LiveRange> &ranges) {
  std::vector<uint64_t> changes(live.size() + 1); // they wrap around and come back
  for (const LiveRange &range : ranges) {
    changes[range.first] += range.end - range.begin;
    changes[range.last + 1] -= range.end - range.begin;
  }
  uint64_t bytes = 0;
  for (size_t at = 0; at < live.size(); ++at)
    live[at] += bytes += changes[at];
}

/// Adds to `extent` how far the ranges of one space reach from `begin` on. Returns the maximum.
uint64_t addExtent(std::vector<uint64_t> &extent, std::vector<LiveRange> ranges, uint64_t begin, uint64_t unit) {
  std::ranges::sort(ranges, {}, &LiveRange::first);
  std::priority_queue<std::pair<uint64_t, size_t>> alive; // ends, the highest first, and how long they live
  uint64_t most = 0;
  auto next = ranges.begin();
  for (size_t at = 0; at < extent.size(); ++at) {
    for (; next != ranges.end() && next->first == at; ++next)
      alive.emplace(next->end, next->last);
    while (!alive.empty() && alive.top().second < at)
      alive.pop();
    uint64_t reach = alive.empty() ? 0 : roundUp(alive.top().first - begin, unit);
    extent[at] += reach;
    most = std::max(most, reach);
  }
  return most;
}

} // namespace

size_t StepMemory::commandsIn(const abi::Manifest &manifest, const abi::Role &role, std::string_view timetable) {
  std::map<std::string_view, size_t> sizes;
  for (const abi::CommandList &list : manifest.lists())
    sizes[list.name()] = static_cast<size_t>(list.commands_size());
  size_t commands = 0;
  const abi::Timetable &all = abi::timetableOf(role, timetable);
  for (const abi::TimedEntry &timed : abi::unroll(all, abi::stepsToJudge(all)))
    commands += sizes[timed.entry->list()];
  return commands;
}

StepMemory::StepMemory(const abi::Manifest &manifest, const abi::Role &role, std::string_view timetable) {
  std::vector<uint64_t> tensorEnds = tensorEndsOf(role);
  walk(manifest, role, timetable, tensorEnds);
  std::vector<std::vector<LiveRange>> ofSpaces(tensorEnds.size());
  for (const LiveRange &range : live)
    ofSpaces[spaceAt(role, range.begin)].push_back(range);
  for (const abi::MemoryUse &use : role.memory()) {
    MemoryCategory category{use.category(), std::vector<uint64_t>(commands()), std::vector<uint64_t>(commands())};
    bool comesAndGoes = false;
    for (int number = 0; number < role.spaces_size(); ++number)
      if (const abi::Space &space = role.spaces(number); space.category() == use.category()) {
        comesAndGoes = true;
        addLive(category.live, ofSpaces[number]);
        category.most +=
            addExtent(category.extent, ofSpaces[number], space.base() + tensorEnds[number], placeUnit(role));
      }
    if (comesAndGoes)
      all.push_back(std::move(category));
    else
      fixed.emplace_back(use.category(), use.bytes());
  }
}

void StepMemory::walk(const abi::Manifest &manifest, const abi::Role &role, std::string_view timetable,
                      const std::vector<uint64_t> &tensorEnds) {
  std::map<std::string_view, const abi::CommandList *> lists;
  for (const abi::CommandList &list : manifest.lists())
    lists[list.name()] = &list;
  std::map<std::string_view, Touches> touches;
  Walk walk(manifest, role, tensorEnds, live);
  firsts.push_back(0);
  const abi::Timetable &all = abi::timetableOf(role, timetable);
  for (const abi::TimedEntry &timed : abi::unroll(all, abi::stepsToJudge(all))) {
    const abi::CommandList &list = *lists.at(timed.entry->list());
    auto [known, isNew] = touches.try_emplace(list.name());
    if (isNew)
      known->second = touchesOf(manifest, list);
    walk.run(*timed.entry, known->second);
    firsts.push_back(firsts.back() + known->second.size());
  }
  walk.finish();
}

uint64_t StepMemory::liveAt(size_t command) const {
  uint64_t bytes = 0;
  for (const MemoryCategory &category : all)
    bytes += category.live[command];
  return bytes;
}

size_t StepMemory::peak() const {
  size_t peak = 0;
  for (size_t at = 1; at < commands(); ++at)
    if (liveAt(at) > liveAt(peak))
      peak = at;
  return peak;
}

} // namespace dtc::timing
