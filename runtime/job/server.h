// Where the ranks of a job on several hosts meet: who is there, who has failed, and the few numbers that all must agree
// on. It runs beside the first launcher, or in the process of rank 0 where launchers are not ours.
//
// Data never pass through it. It listens at one address, lets in who knows the job's token (session.h), and holds what
// it is told against what it has been told before: rank, world, program, version. It looks after the ranks: each says
// several times a second that it lives and where it stands (watch.h).
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

/// How ranks and their server look after each other.
struct Patience {
  std::chrono::milliseconds start{60000};    ///< for all ranks to come
  std::chrono::milliseconds watchdog{45000}; ///< for a sign of life, and for a command that others wait for
};

struct ServerOptions {
  Endpoint listen;
  Key token;
  int world = 1;
  uint32_t generation = 0;       ///< ranks of an earlier start are turned away
  Patience patience;             ///< its watchdog is what the ranks bring
  std::optional<NodePlace> node; ///< of the launcher that has the server, where there are several
  /// Where a rank stands, in words.
  std::function<std::string(int rank, const CommandPlace &place)> describe;
};

class Server : NotCopied {
public:
  /// Listens when it returns. Throws as listenAt.
  explicit Server(ServerOptions options);
  /// Waits, for seconds at most, until all ranks that have come have left.
  ~Server();

  Endpoint endpoint() const;

  /// As Membership::fail and failure.
  void fail(int rank, const std::string &reason);
  std::optional<FailureNotice> failure() const;

  /// From now on the ranks of this generation are awaited; those of the one before are cut off.
  void begin(uint32_t generation);

  /// The launchers of the other hosts; null where there are none.
  Nodes *nodes();

private:
  class Loop;
  std::unique_ptr<Loop> loop;
};

} // namespace dtc::job
