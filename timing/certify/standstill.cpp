#include "timing/certify/standstill.h"

#include "runtime/abi/commands.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

namespace dtc::timing {

std::string textOf(const Place &place) {
  std::string micro =
      place.entry->has_micro_batch() ? fmt::format(" on micro-batch {}", place.entry->micro_batch()) : "";
  return fmt::format("in list '{}'{} (command {})", place.list->name(), micro, place.command);
}

static std::string_view kindOf(const abi::Collective &collective) {
  static constexpr std::array<std::string_view, 5> names{"all-reduce", "all-gather", "reduce-scatter", "all-to-all",
                                                         "broadcast"};
  return names.at(static_cast<size_t>(collective.kind()));
}

/// "ranks 0, 1", or how many there are.
static std::string ranksText(const std::vector<int> &ranks) {
  constexpr size_t few = 4;
  return ranks.size() <= few ? fmt::format("ranks {}", fmt::join(ranks, ", ")) : fmt::format("{} ranks", ranks.size());
}

std::string textOf(const Meetings &meetings, Meetings::Seat seat, int rank, const Place &place) {
  abi::Command command = abi::Resolver(meetings.program(), meetings.roleOf(rank)).resolve(place.get(), *place.entry);
  if (command.has_start())
    return fmt::format("the {} of '{}' over {}", kindOf(command.start()), abi::valueOf(command),
                       ranksText(meetings.membersOf(seat.meeting, rank)));
  return fmt::format("the {} of '{}' {} rank {}", command.has_send() ? "send" : "receive", abi::valueOf(command),
                     command.has_send() ? "to" : "from", meetings.rankOf(seat, rank, 1 - seat.member));
}

namespace {

/// Something that does not happen: a rank's wait for a command that it has started, or that command itself.
struct Stuck {
  int rank;
  Meetings::Seat seat;
  Place started;
  Place waits;     ///< no entry: the started command itself
  std::string why; ///< how it holds up the one before it: ", which rank 1 sends only after"

  bool isWait() const { return waits.entry != nullptr; }
  bool isSame(const Stuck &other) const {
    return isWait() == other.isWait() && rank == other.rank && seat == other.seat;
  }
};

class Chain {
public:
  Chain(const Meetings &meetings, const State &state) : meetings(meetings), state(state) {}

  std::string describe();

private:
  const State::Rank &stateOf(int rank) const {
    return state.ranks[meetings.rankClasses().ofRanks[static_cast<size_t>(rank)]];
  }
  Stuck waitOf(int rank, std::string why) const;
  std::optional<Stuck> findMissing(const Stuck &last);
  std::optional<Stuck> findBefore(const Stuck &last, bool onChannel) const;
  std::optional<Stuck> findNext(const Stuck &last);
  void follow();
  void close(size_t at, const std::string &why);
  std::string nameOf(int rank) const;
  std::string textOf(const Stuck &stuck) const;

  const Meetings &meetings;
  const State &state;
  std::vector<Stuck> chain; ///< each is held up by the next
  std::string end;          ///< and the last by this
};

} // namespace

/// "rank 3", and its role where there are several.
std::string Chain::nameOf(int rank) const {
  std::string role = meetings.program().roles_size() > 1 ? fmt::format(" ({})", meetings.roleOf(rank).name()) : "";
  return fmt::format("rank {}{}", rank, role);
}

/// A rank that waits, and what it waits for.
Stuck Chain::waitOf(int rank, std::string why) const {
  const State::Rank &own = stateOf(rank);
  uint32_t token =
      abi::Resolver(meetings.program(), meetings.roleOf(rank)).tokenOf(own.waitsAt.get(), *own.waitsAt.entry);
  const Place &started = own.flights.at(token).place;
  uint32_t rankClass = meetings.rankClasses().ofRanks[static_cast<size_t>(rank)];
  return {rank, meetings.seatOf(rankClass, started.get()), started, own.waitsAt, std::move(why)};
}

/// A member that has not started its part, and waits for something itself.
std::optional<Stuck> Chain::findMissing(const Stuck &last) {
  const Meeting &where = meetings[last.seat.meeting];
  const State::Met &met = state.met[last.seat.meeting];
  auto missing = std::ranges::find_if(met.started, [&](int64_t started) { return started <= met.done; });
  if (missing == met.started.end())
    return std::nullopt;
  auto member = static_cast<uint32_t>(missing - met.started.begin());
  int rank = meetings.rankOf(last.seat, last.rank, member);
  const char *verb = where.isCollective() ? "starts" : member == 0 ? "sends" : "receives";
  if (!stateOf(rank).hasRun)
    return waitOf(rank, fmt::format(", which {} {} only after", nameOf(rank), verb));
  end = fmt::format(", which {} never {}", nameOf(rank), verb);
  return std::nullopt;
}

/// What a member has started before, on the channel or among all collectives.
std::optional<Stuck> Chain::findBefore(const Stuck &last, bool onChannel) const {
  const Meeting &where = meetings[last.seat.meeting];
  for (uint32_t member = 0; member < where.classes.size(); ++member) {
    int rank = meetings.rankOf(last.seat, last.rank, member);
    const State::Rank &own = stateOf(rank);
    const State::Issued &first = onChannel ? own.channels[where.channel].front() : own.collectives.front();
    if (first.seat == Meetings::Seat{last.seat.meeting, member})
      continue;
    std::string order = onChannel ? fmt::format("on channel {}", where.channel) : "in the order of starts";
    return Stuck{rank, first.seat, first.place, {}, fmt::format(", which {} has {} behind", nameOf(rank), order)};
  }
  return std::nullopt;
}

std::optional<Stuck> Chain::findNext(const Stuck &last) {
  std::optional<Stuck> next = findMissing(last);
  if (!next && end.empty())
    next = findBefore(last, /*onChannel=*/true);
  return !next && end.empty() ? findBefore(last, /*onChannel=*/false) : next;
}

/// From the first rank that waits until something comes up again. A part of a ring of very many ranks says enough.
void Chain::follow() {
  constexpr size_t most = 64;
  auto waiting = std::ranges::find_if(state.ranks, [](const State::Rank &rank) { return !rank.hasRun; });
  chain = {waitOf(meetings.rankClasses().classes[static_cast<size_t>(waiting - state.ranks.begin())].first, "")};
  while (chain.size() < most) {
    std::optional<Stuck> next = findNext(chain.back());
    if (!next)
      return;
    auto known = std::ranges::find_if(chain, [&](const Stuck &stuck) { return stuck.isSame(*next); });
    if (known != chain.end())
      return close(static_cast<size_t>(known - chain.begin()), next->why);
    chain.push_back(std::move(*next));
  }
  end = " at least";
}

/// The last is held up by number `at`. What leads there is left out, except for a wait where the circle has none.
void Chain::close(size_t at, const std::string &why) {
  auto circle = chain.begin() + static_cast<std::ptrdiff_t>(at);
  auto lowest = chain.end();
  for (auto stuck = circle; stuck != chain.end(); ++stuck)
    if (stuck->isWait() && (lowest == chain.end() || stuck->rank < lowest->rank))
      lowest = stuck;
  if (lowest != chain.end()) {
    circle->why = why;
    std::rotate(circle, lowest, chain.end());
    chain.erase(chain.begin(), circle);
    end = fmt::format("{} its wait {}", chain.front().why, timing::textOf(chain.front().waits));
    return;
  }
  end = fmt::format("{} {}", why, textOf(*circle));
  while (!circle->isWait())
    --circle;
  chain.erase(chain.begin(), circle);
}

std::string Chain::textOf(const Stuck &stuck) const {
  return timing::textOf(meetings, stuck.seat, stuck.rank, stuck.started);
}

std::string Chain::describe() {
  follow();
  constexpr size_t told = 8;
  std::string text;
  for (size_t i = 0; i < std::min(chain.size(), told); ++i) {
    const Stuck &stuck = chain[i];
    if (i == 0)
      text = fmt::format("{} waits {} for {}", nameOf(stuck.rank), timing::textOf(stuck.waits), textOf(stuck));
    else if (stuck.isWait())
      text += fmt::format("{} its wait {} for {}", stuck.why, timing::textOf(stuck.waits), textOf(stuck));
    else
      text += fmt::format("{} {} that it starts {}", stuck.why, textOf(stuck), timing::textOf(stuck.started));
  }
  if (chain.size() > told)
    text += fmt::format(", and so on through {} more", chain.size() - told);
  return text + end;
}

std::string describeStandstill(const Meetings &meetings, const State &state) {
  return Chain(meetings, state).describe();
}

} // namespace dtc::timing
