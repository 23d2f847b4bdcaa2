// Where the ranks of a job on several hosts meet: which ranks have joined, which have failed, and the few numbers that
// all must agree on. It runs in the first launcher, or in the process of rank 0 with launchers other than dtc's.
//
// No training data passes through it. It listens at one address, accepts only peers that know the job's token
// (session.h), and checks that ranks agree on world, program and version. It monitors the ranks: each reports several
// times a second that it is alive and where it is in its lists (watch.h).
#pragma once

#include "runtime/job/nodes.h"
#include "runtime/job/session.h"
#include "runtime/liveness/failure_record.h"
#include "runtime/liveness/whereabouts.h"
#include "runtime/support/not_copied.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace dtc::job {

/// Timeouts with which ranks and their server monitor each other.
struct Patience {
  std::chrono::milliseconds start{60000};    ///< for all ranks to join
  std::chrono::milliseconds watchdog{45000}; ///< for a sign of life, and for a command that others wait for
};

struct ServerOptions {
  Endpoint listen;
  Key token;
  int world = 1;
  uint32_t generation = 0;       ///< ranks of an earlier start are rejected
  Patience patience;             ///< its watchdog comes from the ranks
  std::optional<NodePlace> node; ///< the place of the launcher with the server, if there are several launchers
  /// Describes a rank's position, for messages.
  std::function<std::string(int rank, const CommandPlace &place)> describe;
};

class Server : NotCopied {
public:
  /// Is listening when it returns. Throws like listenAt.
  explicit Server(ServerOptions options);
  /// Waits, for a few seconds at most, until all ranks that have joined have left.
  ~Server();

  Endpoint endpoint() const;

  /// Like Membership::fail and failure.
  void fail(int rank, const std::string &reason);
  std::optional<FailureNotice> failure() const;

  /// From now on expects the ranks of this generation; disconnects those of the previous one.
  void begin(uint32_t generation);

  /// The launchers of the other hosts; null if there are none.
  Nodes *nodes();

private:
  class Loop;
  std::unique_ptr<Loop> loop;
};

} // namespace dtc::job
