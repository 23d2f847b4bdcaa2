// A job of several hosts within one process: the basis of a communicator between hosts, without a network's ways of
// finding each other.
#pragma once

#include "runtime/meeting/membership.h"

#include <memory>
#include <vector>

namespace dtc::test {

class FakeJob {
public:
  /// `hosts`: the host of each rank.
  explicit FakeJob(std::vector<int> hosts);
  ~FakeJob();

  /// For a thread that plays this rank, which leaves the job when it is destroyed. Connections are TCP over loopback.
  std::shared_ptr<Membership> join(int rank) const;
  /// As Membership::fail.
  void fail(int rank, std::string_view reason) const;
  /// How many connections to `second` the communicator of `first` has requested.
  int connections(int first, int second) const;
  /// Connections between these two ranks that are made from now on pass through a relay that can do damage.
  void interpose(int first, int second) const;
  /// Flips a bit in the next large piece that passes there, in either direction.
  void damage() const;
  /// Breaks every connection between two ranks.
  void disconnect(int first, int second) const;

private:
  class Member;
  struct State;
  std::shared_ptr<State> state;
};

/// Hosts for a number of ranks: one for each rank, or two with the first half (and one more, if the number is odd) on
/// the first.
std::vector<int> hostOfItsOwn(int ranks);
std::vector<int> twoHosts(int ranks);

} // namespace dtc::test
