// One rank's membership in a job of several hosts: who else there is and where, connections to them, and what is known
// of those that failed. A communicator between hosts (hosts.h) needs nothing else of the network.
//
// Between two ranks there is one connection a channel. What both send on it follows from their command lists, in the
// same order on both sides: it needs neither addresses nor sizes.
#pragma once

#include "runtime/abi/mesh.h"
#include "runtime/liveness/failure_record.h"
#include "runtime/liveness/whereabouts.h"
#include "runtime/meeting/descriptor.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

class Membership {
public:
  virtual ~Membership() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The number of each rank's host. Hosts are numbered in the order of their first ranks; ranks of one host share
  /// memory.
  virtual const std::vector<int> &hosts() const = 0;

  /// Equal for all ranks of the job and for no other job: 32 hexadecimal digits.
  virtual const std::string &name() const = 0;

  /// From now on `place` is told to whoever watches over the ranks; null: nothing, when it returns.
  virtual void show(Whereabouts * /*place*/) {}

  /// A connection to each other member, at its index in the group; none at this rank's own and at those of ranks on its
  /// host. TCP, not blocking, nobody else's: both sides have proven that they know the job's token. While the caller
  /// has one, the membership sees to it that it outlives short cuts of the network. All members call it in one order of
  /// groups. Throws Error (Runtime) naming the rank that does not come in time, and PeerLostError.
  virtual std::vector<SharedDescriptor> connect(const Group &group) = 0;

  /// As Communicator::exchange: one number from every rank, in the order of ranks.
  virtual std::vector<int64_t> exchange(int64_t value) = 0;

  /// Tells all ranks that `rank` failed, unless a failure is known already. From any thread.
  virtual void fail(int rank, std::string_view reason) noexcept = 0;
  /// What is known to have failed first.
  virtual std::optional<FailureNotice> failure() const = 0;
  /// `tell` is called once, from a thread of the membership, as soon as a failure is known. It must be able to run
  /// until the membership is gone.
  virtual void onFailure(std::function<void(const FailureNotice &)> tell) = 0;
  /// A file to poll: readable as soon as a failure is known, and for ever after.
  virtual int failureSignal() const = 0;

  /// A connection to `peer` broke. Waits a little for the reason that is told of a failure, which may be another
  /// rank's, and throws it as PeerLostError; where none is told, `peer` has failed, with `what`.
  [[noreturn]] virtual void lost(int peer, std::string_view what) = 0;
};

} // namespace dtc
