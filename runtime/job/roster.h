// The ranks that have come to a server, and what may be said against them.
#pragma once

#include "runtime/job/session.h"
#include "runtime/liveness/watch.h"

#include <optional>
#include <string>
#include <vector>

namespace dtc::job {

/// Raised whenever ranks and servers would no longer understand each other.
constexpr uint32_t ProtocolVersion = 1;

/// A rank and what is known of it.
struct Attendee {
  std::optional<Session> session; ///< none: it has not come
  Hello hello;
  std::string from;
  bool left = false;
  Clock::time_point heard, moved;
  Position position;
  Silence silence;
  std::optional<Persistence> persistence;
  std::optional<int64_t> number; ///< for the exchange under way

  bool isTaken() const { return session.has_value(); }
};

class Roster {
public:
  explicit Roster(int world) : attendees(static_cast<size_t>(world)) {}

  int world() const { return static_cast<int>(attendees.size()); }
  std::vector<Attendee> &all() { return attendees; }
  Attendee &at(int rank) { return attendees[static_cast<size_t>(rank)]; }

  /// Why `hello` cannot take part, in words for its sender; empty: it can.
  std::string objection(const Hello &hello, uint32_t generation) const;
  /// Whether the job cannot go on with such a rank: it belongs to it, and is another than the others.
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
