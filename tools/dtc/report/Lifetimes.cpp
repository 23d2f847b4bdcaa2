#include "tools/dtc/report/Lifetimes.h"

#include "runtime/abi/addresses.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/tensors.h"
#include "runtime/abi/timetables.h"

#include <algorithm>
#include <tuple>

namespace dtc {

namespace {
/// Ranges of an arena and since when each is in use.
class Uses {
public:
  explicit Uses(uint64_t sharedBegin) : sharedBegin(sharedBegin) {}

  void write(uint64_t begin, uint64_t end, int64_t at) {
    cut(begin, end);
    // What was there ends with its last use. Where this command works in place, its result counts for both.
    for (auto use = ranges.lower_bound(begin); use != ranges.end() && use->first < end;) {
      finish(use->first, use->second, at - 1);
      use = ranges.erase(use);
    }
    ranges[begin] = {end, at, at};
  }

  /// What nothing has written in this step was there when it began.
  void read(uint64_t begin, uint64_t end, int64_t at) {
    cut(begin, end);
    for (uint64_t from = begin; from < end;) {
      auto use = ranges.lower_bound(from);
      uint64_t next = use == ranges.end() ? end : std::min(use->first, end);
      if (next > from)
        ranges[from] = {next, 0, at};
      else
        next = use->second.end;
      ranges[from].last = std::max(ranges[from].last, at);
      from = next;
    }
  }

  /// Bytes in use at each of so many commands: below and from `sharedBegin` on.
  std::pair<std::vector<uint64_t>, std::vector<uint64_t>> sum(size_t commands) {
    for (const auto &[begin, use] : ranges)
      finish(begin, use, use.last);
    std::vector<uint64_t> work(commands + 1), visible(commands + 1); // differences; they wrap and come back
    for (const Span &span : spans) {
      std::vector<uint64_t> &side = span.begin < sharedBegin ? work : visible;
      side[static_cast<size_t>(span.since)] += span.end - span.begin;
      side[static_cast<size_t>(span.last) + 1] -= span.end - span.begin;
    }
    for (std::vector<uint64_t> *side : {&work, &visible}) {
      for (size_t i = 1; i < commands; ++i)
        (*side)[i] += (*side)[i - 1];
      side->pop_back();
    }
    return {std::move(work), std::move(visible)};
  }

private:
  struct Use {
    uint64_t end = 0;
    int64_t since = 0, last = 0;
  };
  struct Span {
    uint64_t begin, end;
    int64_t since, last;
  };

  void finish(uint64_t begin, const Use &use, int64_t latest) {
    if (int64_t last = std::min(use.last, latest); last >= use.since)
      spans.push_back({begin, use.end, use.since, last});
  }

  /// No range reaches over either bound afterwards.
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

  uint64_t sharedBegin;
  std::map<uint64_t, Use> ranges; // by their begins; they do not overlap
  std::vector<Span> spans;        // that have ended
};

/// Walks a step and notes what each command uses.
class Walk {
public:
  Walk(const abi::Manifest &manifest, const abi::Role &role)
      : manifest(manifest), uses(role.shared_begin()), arena(role.arena_bytes()) {
    for (const abi::Tensor &tensor : role.tensors())
      if (uint64_t begin = abi::arenaOffset(role, tensor.address()); tensor.role() != abi::Tensor::CACHE)
        tensors[begin] = begin + abi::bytesOf(tensor);
  }

  void command(const abi::Command &command, int64_t at) {
    auto &held = underWay[abi::tokenOf(command)];
    if (command.has_wait()) {
      for (const auto &[begin, end] : held)
        uses.read(begin, end, at);
      held.clear();
      return;
    }
    auto use = [&](bool isWrite) {
      return [this, at, isWrite, &held, isStart = abi::isStart(command)](uint64_t address, uint64_t bytes) {
        outsideTensors(address, bytes, [&](uint64_t begin, uint64_t end) {
          isWrite ? uses.write(begin, end, at) : uses.read(begin, end, at);
          if (isStart)
            held.emplace_back(begin, end);
        });
      };
    };
    abi::forEachRead(manifest, command, use(false));
    abi::forEachWritten(manifest, command, use(true));
  }

  auto sum(size_t commands) { return uses.sum(commands); }

private:
  /// Tensors have places of their own all the time, and the host's memory is no part of the arena.
  template <typename Visit> void outsideTensors(uint64_t address, uint64_t bytes, Visit visit) const {
    uint64_t begin = address, end = std::min(address + bytes, arena);
    for (auto tensor = tensors.upper_bound(begin); begin < end;) {
      if (tensor != tensors.begin() && std::prev(tensor)->second > begin)
        begin = std::prev(tensor)->second;
      uint64_t next = tensor == tensors.end() ? end : std::min(tensor->first, end);
      if (begin < next)
        visit(begin, next);
      begin = std::max(begin, next);
      if (tensor == tensors.end())
        break;
      ++tensor;
    }
  }

  const abi::Manifest &manifest;
  Uses uses;
  uint64_t arena;
  std::map<uint64_t, uint64_t> tensors;                                    // begins and ends
  std::map<uint32_t, std::vector<std::pair<uint64_t, uint64_t>>> underWay; // by token: operands and results
};
} // namespace

StepLifetimes StepLifetimes::of(const abi::Manifest &manifest, const abi::Role &role, int64_t most) {
  StepLifetimes result;
  abi::Resolver resolver(manifest, role);
  std::map<std::string, abi::CommandList> lists; // as entries mean them
  Walk walk(manifest, role);
  for (const abi::TimedEntry &timed : abi::unroll(abi::timetableOf(role, abi::stepTimetable), /*steps=*/1)) {
    auto [place, isNew] = lists.try_emplace(abi::instanceOf(*timed.entry));
    if (isNew)
      place->second = resolver.resolve(*timed.entry);
    const abi::CommandList &list = place->second;
    if (static_cast<int64_t>(result.commands.size()) + list.commands_size() > most)
      return {};
    for (int i = 0; i < list.commands_size(); ++i) {
      walk.command(list.commands(i), static_cast<int64_t>(result.commands.size()));
      result.commands.emplace_back(list.name(), i);
    }
  }
  if (!result.commands.empty())
    std::tie(result.work, result.visible) = walk.sum(result.commands.size());
  return result;
}

} // namespace dtc
