// One execution of a timetable by one rank of each class, as far as it goes. certify.h says what can happen when.
#pragma once

#include "runtime/abi/groups.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/timetables.h"
#include "timing/certify/meetings.h"

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dtc::timing {

/// A command, and the entry for which it runs, in the places of that entry's step.
struct Place {
  const abi::TimetableEntry *entry = nullptr;
  const abi::CommandList *list = nullptr;
  int command = 0;
  uint32_t turns = 0; ///< of its token: through how many places it moves on from step to step
  const abi::Command &get() const { return list->commands(command); }
};

/// What has happened up to now.
struct State {
  /// Started, and has not taken place.
  struct Issued {
    Meetings::Seat seat;
    Place place;
  };
  /// Started, and not waited for.
  struct Flight {
    static constexpr uint32_t none = UINT32_MAX;
    uint32_t meeting; ///< none: a copy
    int64_t number;   ///< the n-th there; the last part's if there are several
    Place place;
  };
  struct Rank {
    std::array<std::deque<Issued>, abi::MaximumChannels> channels; ///< in the order of starts
    std::deque<Issued> collectives;                                ///< on all channels
    std::unordered_map<uint32_t, Flight> flights;                  ///< by token
    size_t entry = 0, next = 0; ///< among the entries to run, and among that entry's commands that matter
    Place waitsAt = {};         ///< no entry: it does not
    bool hasRun = false;        ///< all that was to be run
  };
  struct Met {
    int64_t done = 0;             ///< how many have taken place
    std::vector<int64_t> started; ///< of each member
    struct First {
      uint32_t member;
      Place place;
    };
    std::deque<First> first; ///< who was first to start those that have not taken place
  };
  std::vector<Rank> ranks; ///< of each class
  std::vector<Met> met;    ///< at each meeting

  /// What is under way after that many steps, whatever happened before. What moves on from place to place with each
  /// step counts as in the same place.
  std::vector<int64_t> underWay(int64_t steps) const;
};

class Execution {
public:
  /// `meetings` must outlive it.
  explicit Execution(const Meetings &meetings);

  /// A step of a run of several, counted from 0.
  struct Step {
    int64_t number;
    int64_t steps; ///< of the run; endless: others always follow
  };
  static constexpr int64_t endless = INT64_MAX;
  /// Continues by one step of all ranks; the first one also runs what comes before it. Throws Error (BadInput) as
  /// certify() does.
  void run(State &state, std::string_view timetable, Step step);

  /// Continues by what a step may have to redo, where the program may: behind it the same is under way as before it, so
  /// it makes no difference to what follows which steps are redone. Throws Error (BadInput) where that is not so.
  void redo(State &state, Step step);

  /// Throws where anything is under way.
  void requireNothingUnderWay(const State &state, std::string_view timetable) const;

  State begin() const;
  uint64_t commands() const { return followed; } ///< in all runs until now

private:
  /// An entry, with the commands that start something or wait.
  struct Task {
    const abi::TimetableEntry *entry;
    const abi::CommandList *list;
    const std::vector<int> *commands;
    const abi::TimetableEntry *stated; ///< by the timetable: the entry may be a copy of it
  };

  std::vector<Task> tasksOf(const abi::Role &role, std::string_view timetable, Step step);
  const abi::TimetableEntry &placed(const abi::TimetableEntry &entry, int64_t step);
  bool advance(State &state, uint32_t rankClass, const std::vector<Task> &tasks);
  bool execute(State &state, uint32_t rankClass, const Place &place);
  void start(State &state, uint32_t rankClass, const Place &place);
  void requireAgreement(uint32_t rankClass, const Place &place, Meetings::Seat seat,
                        const State::Met::First &other) const;
  void settle(State &state, uint32_t meeting);
  bool takesPlace(const State &state, uint32_t meeting) const;
  uint32_t tokenOf(uint32_t rankClass, const Place &place) const;

  const Meetings &meetings;
  const abi::Manifest &manifest;
  const RankClasses &ranks;
  struct List {
    const abi::CommandList *list;
    std::vector<int> commands;
  };
  std::unordered_map<std::string_view, List> lists;
  std::vector<abi::Resolver> resolvers; ///< of each role
  /// Entries that move on, as they run in a step of their turn.
  std::map<std::pair<const abi::TimetableEntry *, int64_t>, abi::TimetableEntry> copies;
  std::string_view name;                ///< of the timetable that runs, for messages
  uint64_t followed = 0;
};

} // namespace dtc::timing
