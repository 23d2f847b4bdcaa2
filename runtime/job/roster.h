// The ranks that have joined a server, and reasons to reject a rank.
#pragma once

#include "runtime/job/session.h"
#include "runtime/liveness/watch.h"

#include <optional>
#include <string>
#include <vector>

namespace dtc::job {

/// Increases whenever ranks and servers become incompatible.
constexpr uint32_t ProtocolVersion = 1;

/// A rank and what is known of it.
struct Attendee {
  std::optional<Session> session; ///< nullopt: it has not joined
  Hello hello;
  std::string from;
  bool left = false;
  Clock::time_point heard, moved;
  Position position;
  Silence silence;
  std::optional<Persistence> persistence;
  std::optional<int64_t> number; ///< for the current exchange

  bool isTaken() const { return session.has_value(); }
};

class Roster {
public:
  explicit Roster(int world) : attendees(static_cast<size_t>(world)) {}

  int world() const { return static_cast<int>(attendees.size()); }
  std::vector<Attendee> &all() { return attendees; }
  Attendee &at(int rank) { return attendees[static_cast<size_t>(rank)]; }

  /// Why `hello` cannot take part, as a message for its sender; empty: it can.
  std::string objection(const Hello &hello, uint32_t generation) const;
  /// Whether the job must fail because of this rank: it belongs to the job, but differs from the other ranks.
  bool isMixed(const Hello &hello) const;

  bool isComplete() const;
  int firstMissing() const;
  /// "ranks 3, 5 and 2 more".
  std::string missing() const;
  Table table() const;

private:
  const Attendee *anybody() const;
  std::vector<Attendee> attendees;
};

} // namespace dtc::job
