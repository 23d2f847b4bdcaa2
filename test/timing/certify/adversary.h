// An executor that delays at will: it runs all ranks of a program, and picks any of the possible next events. It knows
// ranks but no classes, and matches commands by their members, as transports do.
#pragma once

#include "runtime/abi/commands.h"
#include "runtime/abi/groups.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/timetables.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace dtc::test {

/// What transports promise beyond the order on each channel.
enum class Device {
  RoomForAll, ///< collectives on several channels take place in parallel
  RoomForOne, ///< of those that a rank has started, the first takes place first
};

class Adversary {
public:
  /// This many steps of a timetable in a row.
  Adversary(const abi::Manifest &manifest, const std::string &timetable, int64_t steps);

  /// Whether all ranks reach their end when the next event is drawn at random.
  bool run(uint64_t seed, Device device) const;

  size_t events() const { return count; }

private:
  /// What a rank does next: starts its part of a meeting, waits for one, or meets all others between two steps.
  struct Action {
    enum Kind { Start, Wait, Between } kind;
    size_t meeting; ///< of Between the step
  };
  struct Meeting {
    std::vector<int> ranks;
    uint32_t channel;
    bool isCollective;
  };

  void addRank(const abi::Manifest &manifest, const Mesh &mesh, int rank, const std::string &timetable, int64_t steps);
  size_t meetingOf(const abi::Manifest &manifest, const Mesh &mesh, int rank, const abi::Command &command);

  using Pair = std::tuple<uint32_t, int, int>; // of a group: sender and receiver; of collectives its lowest rank, -1
  std::vector<std::vector<Action>> actions;    // of each rank
  std::vector<Meeting> meetings;
  std::map<std::pair<Pair, int64_t>, size_t> numbers;
  std::map<std::tuple<Pair, int, bool>, int64_t> begun; // while ranks are added: by rank and direction
  size_t count = 0;
};

inline Adversary::Adversary(const abi::Manifest &manifest, const std::string &timetable, int64_t steps) {
  Mesh mesh(manifest.mesh());
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    addRank(manifest, mesh, rank, timetable, steps);
}

inline size_t Adversary::meetingOf(const abi::Manifest &manifest, const Mesh &mesh, int rank,
                                   const abi::Command &command) {
  const abi::Group &named = manifest.groups(static_cast<int>(abi::groupOf(command)));
  std::vector<int> ranks = mesh.group(rank, named).ranks;
  Pair who{abi::groupOf(command), *std::ranges::min_element(ranks), -1};
  if (!command.has_start()) {
    int peer = mesh.neighbour(rank, named, abi::transferOf(command).shift());
    ranks = command.has_send() ? std::vector{rank, peer} : std::vector{peer, rank};
    who = {abi::groupOf(command), ranks[0], ranks[1]};
  }
  int64_t index = begun[{who, rank, command.has_send()}]++;
  auto [known, isNew] = numbers.try_emplace({who, index}, meetings.size());
  if (isNew)
    meetings.push_back({ranks, named.channel(), command.has_start()});
  return known->second;
}

inline void Adversary::addRank(const abi::Manifest &manifest, const Mesh &mesh, int rank, const std::string &timetable,
                               int64_t steps) {
  const abi::Role &role = abi::roleOf(manifest, rank);
  abi::Resolver resolver(manifest, role);
  std::vector<Action> &own = actions.emplace_back();
  std::map<uint32_t, std::vector<size_t>> underWay; // by token
  int64_t step = 0;
  for (const abi::TimedEntry &timed : abi::unroll(abi::timetableOf(role, timetable), steps)) {
    for (; step < timed.step; ++step)
      own.push_back({Action::Between, static_cast<size_t>(step)});
    abi::CommandList list = resolver.resolve(*timed.entry);
    for (const abi::Command &command : list.commands()) {
      uint32_t token = abi::tokenOf(command);
      if (abi::communicates(command)) {
        size_t meeting = meetingOf(manifest, mesh, rank, command);
        underWay[token].push_back(meeting);
        own.push_back({Action::Start, meeting});
      } else if (command.has_wait()) {
        for (size_t meeting : underWay[token])
          own.push_back({Action::Wait, meeting});
        underWay[token].clear();
      }
    }
  }
  for (; step + 1 < steps; ++step)
    own.push_back({Action::Between, static_cast<size_t>(step)});
  count += own.size();
}

inline bool Adversary::run(uint64_t seed, Device device) const {
  std::mt19937_64 random(seed);
  struct Rank {
    size_t next = 0;
    std::array<std::deque<size_t>, abi::MaximumChannels> channels;
    std::deque<size_t> collectives;
  };
  std::vector<Rank> ranks(actions.size());
  std::vector<size_t> arrived(meetings.size());
  std::vector<bool> done(meetings.size());
  std::vector<size_t> open; // meetings that a rank has started
  auto goesOn = [&](size_t rank) {
    const Rank &own = ranks[rank];
    if (own.next == actions[rank].size())
      return false;
    auto [kind, meeting] = actions[rank][own.next];
    return kind == Action::Start || (kind == Action::Wait && done[meeting]);
  };
  auto takesPlace = [&](size_t meeting) {
    const Meeting &at = meetings[meeting];
    return arrived[meeting] == at.ranks.size() && std::ranges::all_of(at.ranks, [&](int rank) {
             Rank &own = ranks[static_cast<size_t>(rank)];
             return own.channels[at.channel].front() == meeting &&
                    (!at.isCollective || device == Device::RoomForAll || own.collectives.front() == meeting);
           });
  };
  for (;;) {
    std::vector<std::pair<bool, size_t>> can; // a meeting, or a rank
    size_t atEnd = 0, atBetween = 0;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (goesOn(rank))
        can.push_back({false, rank});
      atEnd += ranks[rank].next == actions[rank].size();
      atBetween += ranks[rank].next < actions[rank].size() && actions[rank][ranks[rank].next].kind == Action::Between;
    }
    for (size_t meeting : open)
      if (takesPlace(meeting))
        can.push_back({true, meeting});
    if (can.empty() && atBetween == ranks.size()) {
      for (Rank &rank : ranks)
        ++rank.next;
      continue;
    }
    if (can.empty())
      return atEnd == ranks.size();
    auto [isMeeting, which] = can[random() % can.size()];
    if (!isMeeting) {
      Rank &own = ranks[which];
      auto [kind, meeting] = actions[which][own.next++];
      if (kind != Action::Start)
        continue;
      if (arrived[meeting]++ == 0)
        open.push_back(meeting);
      own.channels[meetings[meeting].channel].push_back(meeting);
      if (meetings[meeting].isCollective)
        own.collectives.push_back(meeting);
      continue;
    }
    done[which] = true;
    std::erase(open, which);
    for (int rank : meetings[which].ranks) {
      Rank &own = ranks[static_cast<size_t>(rank)];
      own.channels[meetings[which].channel].pop_front();
      if (meetings[which].isCollective)
        std::erase(own.collectives, which);
    }
  }
}

} // namespace dtc::test
