// One rank's membership in a job of several hosts: the other ranks and their hosts, connections to them, and known
// failures. A communicator between hosts (hosts.h) needs nothing else from the network.
//
// Two ranks have one connection per channel. Their command lists determine what they send on it, in the same order on
// both sides, so messages need neither addresses nor sizes.
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

  /// From now on reports `place` to the monitor of the ranks; null: stops reporting before it returns.
  virtual void show(Whereabouts * /*place*/) {}

  /// A connection to each other member, at its index in the group; null for this rank and for ranks on its host. They
  /// are non-blocking TCP connections, authenticated on both sides with the job's token. While the caller holds one,
  /// the membership keeps it alive across short network outages. All members call this for their groups in the same
  /// order. Throws Error (Runtime) naming a rank that does not connect in time, and PeerLostError.
  virtual std::vector<SharedDescriptor> connect(const Group &group) = 0;

  /// Like Communicator::exchange: one number from every rank, in rank order.
  virtual std::vector<int64_t> exchange(int64_t value) = 0;

  /// Tells all ranks that `rank` failed, unless a failure is already known. May be called from any thread.
  virtual void fail(int rank, std::string_view reason) noexcept = 0;
  /// The first known failure.
  virtual std::optional<FailureNotice> failure() const = 0;
  /// `tell` is called once, from a thread of the membership, as soon as a failure is known. It must be able to run
  /// until the membership is gone.
  virtual void onFailure(std::function<void(const FailureNotice &)> tell) = 0;
  /// A file to poll: readable as soon as a failure is known, and for ever after.
  virtual int failureSignal() const = 0;

  /// A connection to `peer` broke. Waits briefly for a reported failure, which may be another rank's, and throws it as
  /// PeerLostError. If none is reported, `peer` has failed, with `what`.
  [[noreturn]] virtual void lost(int peer, std::string_view what) = 0;
};

} // namespace dtc
