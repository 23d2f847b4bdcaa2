#include "timing/certify/execution.h"

#include "runtime/abi/addresses.h"
#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"
#include "runtime/support/error.h"
#include "timing/certify/standstill.h"

#include <algorithm>
#include <fmt/format.h>

namespace dtc::timing {

/// The place of a token, as if the step to come were the first.
static int64_t turnedBack(const Place &place, int64_t steps) {
  int64_t of = abi::placeOf(*place.entry, abi::tokenSpaceOf(place.get()));
  int64_t turns = place.turns;
  return turns == 0 ? of : (of + turns - steps % turns) % turns;
}

std::vector<int64_t> State::underWay(int64_t steps) const {
  std::vector<int64_t> numbers;
  auto add = [&](const std::deque<Issued> &queue) {
    numbers.push_back(static_cast<int64_t>(queue.size()));
    for (const Issued &issued : queue)
      numbers.insert(numbers.end(), {issued.seat.meeting, issued.seat.member});
  };
  for (const Rank &rank : ranks) {
    for (const std::deque<Issued> &queue : rank.channels)
      add(queue);
    add(rank.collectives);
    std::map<std::pair<uint32_t, int64_t>, const Flight *> flights; // by the list's token, and its place
    for (const auto &[token, flight] : rank.flights)
      flights.emplace(std::pair(abi::tokenOf(flight.place.get()), turnedBack(flight.place, steps)), &flight);
    numbers.push_back(static_cast<int64_t>(flights.size()));
    for (auto [token, flight] : flights)
      numbers.insert(numbers.end(), {token.first, token.second, flight->meeting,
                                     flight->meeting == Flight::none ? 0 : flight->number - met[flight->meeting].done});
  }
  for (const Met &each : met)
    for (int64_t started : each.started)
      numbers.push_back(started - each.done);
  return numbers;
}

Execution::Execution(const Meetings &meetings)
    : meetings(meetings), manifest(meetings.program()), ranks(meetings.rankClasses()),
      resolvers(abi::Resolver::ofRoles(manifest)) {
  for (const abi::CommandList &list : manifest.lists()) {
    List &known = lists[list.name()];
    known.list = &list;
    for (int at = 0; at < list.commands_size(); ++at)
      if (abi::isStart(list.commands(at)) || list.commands(at).has_wait())
        known.commands.push_back(at);
  }
}

State Execution::begin() const {
  State state;
  state.ranks.resize(ranks.classes.size());
  state.met.resize(meetings.size());
  for (uint32_t meeting = 0; meeting < meetings.size(); ++meeting)
    state.met[meeting].started.resize(meetings[meeting].classes.size());
  return state;
}

/// An entry in the places of a step.
const abi::TimetableEntry &Execution::placed(const abi::TimetableEntry &entry, int64_t step) {
  if (entry.turns().empty())
    return entry;
  auto [known, isNew] = copies.try_emplace({&entry, step % abi::stepsOfTurn(entry)});
  if (isNew)
    known->second = abi::inStep(entry, step);
  return known->second;
}

std::vector<Execution::Task> Execution::tasksOf(const abi::Role &role, std::string_view timetable, Step step) {
  const abi::Timetable &all = abi::timetableOf(role, timetable);
  std::vector<Task> tasks;
  bool begins = step.number == 0 && timetable != abi::redoTimetable;
  for (int64_t running = begins ? -abi::stepsAhead(all) : step.number; running <= step.number; ++running)
    abi::forEachIn(all, running, step.steps, [&](const abi::TimetableEntry &entry, int64_t of) {
      const List &list = lists.at(entry.list());
      tasks.push_back({&placed(entry, of), list.list, &list.commands, &entry});
    });
  return tasks;
}

void Execution::redo(State &state, Step step) {
  if (std::ranges::none_of(manifest.roles(), abi::mayRedo))
    return;
  std::vector<int64_t> before = state.underWay(step.number + 1);
  run(state, abi::redoTimetable, step);
  if (state.underWay(step.number + 1) != before)
    throw Error(ExitCode::BadInput, fmt::format("its {} leaves something else under way than it has found", name));
}

void Execution::run(State &state, std::string_view timetable, Step step) {
  name = timetable;
  std::vector<std::vector<Task>> tasks;
  for (const abi::Role &role : manifest.roles())
    tasks.push_back(tasksOf(role, timetable, step));
  for (State::Rank &rank : state.ranks) {
    rank.entry = rank.next = 0;
    rank.hasRun = false;
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t one = 0; one < state.ranks.size(); ++one)
      moved |= advance(state, one, tasks[static_cast<size_t>(ranks.classes[one].role)]);
  }
  if (!std::ranges::all_of(state.ranks, &State::Rank::hasRun))
    throw Error(ExitCode::BadInput, fmt::format("its {} can hang: {}", name, describeStandstill(meetings, state)));
}

/// Runs a rank as far as it gets; returns whether it did anything.
bool Execution::advance(State &state, uint32_t rankClass, const std::vector<Task> &tasks) {
  State::Rank &rank = state.ranks[rankClass];
  if (rank.hasRun)
    return false;
  bool moved = false;
  for (; rank.entry < tasks.size(); ++rank.entry, rank.next = 0, moved = true) {
    const Task &task = tasks[rank.entry];
    for (; rank.next < task.commands->size(); ++rank.next, ++followed, moved = true) {
      Place place{task.entry, task.list, (*task.commands)[rank.next]};
      place.turns = abi::turnsOf(*task.stated, abi::tokenSpaceOf(place.get()));
      if (!execute(state, rankClass, place)) {
        rank.waitsAt = place;
        return moved;
      }
    }
  }
  rank.waitsAt = {};
  rank.hasRun = true;
  return true;
}

uint32_t Execution::tokenOf(uint32_t rankClass, const Place &place) const {
  return resolvers[static_cast<size_t>(ranks.classes[rankClass].role)].tokenOf(place.get(), *place.entry);
}

/// Returns false if it waits for others.
bool Execution::execute(State &state, uint32_t rankClass, const Place &place) {
  if (!place.get().has_wait()) {
    start(state, rankClass, place);
    return true;
  }
  State::Rank &rank = state.ranks[rankClass];
  auto flight = rank.flights.find(tokenOf(rankClass, place));
  if (flight == rank.flights.end())
    throw Error(ExitCode::BadInput, fmt::format("in its {} rank {} waits {} for what nothing has started", name,
                                                ranks.classes[rankClass].first, textOf(place)));
  const auto &[meeting, number, started] = flight->second;
  if (meeting != State::Flight::none && state.met[meeting].done <= number)
    return false;
  rank.flights.erase(flight);
  return true;
}

void Execution::start(State &state, uint32_t rankClass, const Place &place) {
  const abi::Command &command = place.get();
  State::Rank &rank = state.ranks[rankClass];
  int name = ranks.classes[rankClass].first;
  uint32_t token = tokenOf(rankClass, place);
  bool isPart = abi::isPart(*place.list, place.command);
  if (auto taken = rank.flights.find(token); !isPart && taken != rank.flights.end()) {
    auto describe = [&](const Place &at) {
      return at.get().has_copy() ? "a copy" : textOf(meetings, meetings.seatOf(rankClass, at.get()), name, at);
    };
    throw Error(
        ExitCode::BadInput,
        fmt::format("in its {} rank {} starts {} {} while {}, which it started {} with the same token, is still "
                    "to be waited for",
                    this->name, name, describe(place), textOf(place), describe(taken->second.place),
                    textOf(taken->second.place)));
  }
  if (!abi::communicates(command)) {
    rank.flights[token] = {State::Flight::none, 0, place};
    return;
  }
  Meetings::Seat seat = meetings.seatOf(rankClass, command);
  State::Met &met = state.met[seat.meeting];
  int64_t number = met.started[seat.member]++;
  if (size_t at = static_cast<size_t>(number - met.done); at < met.first.size())
    requireAgreement(rankClass, place, seat, met.first[at]);
  else
    met.first.push_back({seat.member, place});
  rank.flights[token] = {seat.meeting, number, place};
  rank.channels[meetings[seat.meeting].channel].push_back({seat, place});
  if (command.has_start())
    rank.collectives.push_back({seat, place});
  settle(state, seat.meeting);
}

/// In what two commands that meet differ; empty if in nothing that matters.
static std::string findDifference(const abi::Command &one, const abi::Command &other) {
  if (!one.has_start()) {
    const abi::Transfer &a = abi::transferOf(one), &b = abi::transferOf(other);
    if (a.type() != b.type())
      return fmt::format("elements of {} and {}", abi::nameOf(a.type()), abi::nameOf(b.type()));
    return a.elements() == b.elements() ? "" : fmt::format("{} and {} elements", a.elements(), b.elements());
  }
  const abi::Collective &a = one.start(), &b = other.start();
  if (a.kind() != b.kind() || a.reduction() != b.reduction())
    return "kinds";
  if (a.type() != b.type())
    return fmt::format("elements of {} and {}", abi::nameOf(a.type()), abi::nameOf(b.type()));
  auto sizes = [](const abi::Collective &call) {
    return fmt::format("{} x {} x {}{}", call.outer(), call.middle(), call.chunk(),
                       call.split_first() ? ", split first" : "");
  };
  if (sizes(a) != sizes(b))
    return fmt::format("sizes {} and {}", sizes(a), sizes(b));
  if (a.root() != b.root())
    return fmt::format("roots {} and {}", a.root(), b.root());
  if (a.has_counts() != b.has_counts())
    return "counts of rows";
  return a.more() == b.more() ? "" : "the number of parts";
}

void Execution::requireAgreement(uint32_t rankClass, const Place &place, Meetings::Seat seat,
                                 const State::Met::First &other) const {
  std::string difference = findDifference(place.get(), other.place.get());
  if (difference.empty())
    return;
  int rank = ranks.classes[rankClass].first, peer = meetings.rankOf(seat, rank, other.member);
  throw Error(ExitCode::BadInput,
              fmt::format("in its {} {} that rank {} starts {} meets {} that rank {} starts {}: they differ in {}",
                          name, textOf(meetings, seat, rank, place), rank, textOf(place),
                          textOf(meetings, {seat.meeting, other.member}, peer, other.place), peer, textOf(other.place),
                          difference));
}

/// Lets everything take place that can, starting at a meeting where something has changed.
void Execution::settle(State &state, uint32_t meeting) {
  std::vector<uint32_t> changed{meeting};
  while (!changed.empty()) {
    uint32_t at = changed.back();
    changed.pop_back();
    while (takesPlace(state, at)) {
      const Meeting &where = meetings[at];
      ++state.met[at].done;
      state.met[at].first.pop_front();
      for (uint32_t one : where.classes) {
        State::Rank &rank = state.ranks[one];
        std::deque<State::Issued> &channel = rank.channels[where.channel];
        channel.pop_front();
        if (where.isCollective())
          rank.collectives.pop_front();
        for (const std::deque<State::Issued> *queue : {&channel, &rank.collectives})
          if (!queue->empty() && queue->front().seat.meeting != at)
            changed.push_back(queue->front().seat.meeting);
      }
    }
  }
}

/// Whether all have started the next command there, and have nothing before it.
bool Execution::takesPlace(const State &state, uint32_t meeting) const {
  const Meeting &where = meetings[meeting];
  for (uint32_t member = 0; member < where.classes.size(); ++member) {
    const State::Rank &rank = state.ranks[where.classes[member]];
    const std::deque<State::Issued> &channel = rank.channels[where.channel];
    Meetings::Seat seat{meeting, member};
    if (channel.empty() || channel.front().seat != seat ||
        (where.isCollective() && rank.collectives.front().seat != seat))
      return false;
  }
  return true;
}

void Execution::requireNothingUnderWay(const State &state, std::string_view timetable) const {
  for (uint32_t one = 0; one < state.ranks.size(); ++one)
    for (const auto &[token, flight] : state.ranks[one].flights) {
      int rank = ranks.classes[one].first;
      std::string what = flight.meeting == State::Flight::none
                             ? "the copy"
                             : textOf(meetings, meetings.seatOf(one, flight.place.get()), rank, flight.place);
      throw Error(ExitCode::BadInput, fmt::format("in its {} rank {} never waits for {} that it starts {}", timetable,
                                                  rank, what, textOf(flight.place)));
    }
}

} // namespace dtc::timing
