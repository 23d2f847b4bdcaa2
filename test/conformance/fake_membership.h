// A job of several hosts within one process: what a communicator between hosts stands on, without a network's ways to
// find each other.
#pragma once

#include "runtime/meeting/membership.h"

#include <memory>
#include <vector>

namespace dtc::test {

class FakeJob {
public:
  /// `hosts`: of each rank.
  explicit FakeJob(std::vector<int> hosts);
  ~FakeJob();

  /// Of a thread that plays this rank, which leaves the job when it is destroyed. Connections are TCP over loopback.
  std::shared_ptr<Membership> join(int rank) const;
  /// As Membership::fail.
  void fail(int rank, std::string_view reason) const;
  /// How many connections to `second` the communicator of `first` has asked for.
  int connections(int first, int second) const;
  /// Connections between these two ranks that are made from here on pass through something that may do damage.
  void interpose(int first, int second) const;
  /// It turns over a bit of the next large piece that passes there, in either direction.
  void damage() const;
  /// Breaks every connection between two ranks.
  void disconnect(int first, int second) const;

private:
  class Member;
  struct State;
  std::shared_ptr<State> state;
};

/// Hosts for a number of ranks: each its own, or two with the first half (and one more, of an odd number) on the first.
std::vector<int> hostOfItsOwn(int ranks);
std::vector<int> twoHosts(int ranks);

} // namespace dtc::test
