// A rank's membership in a job on several hosts, over TCP.
#pragma once

#include "runtime/job/server.h"
#include "runtime/meeting/membership.h"

#include <memory>
#include <string>

namespace dtc::job {

struct MemberOptions {
  Endpoint server;
  Key token;
  int rank = 0;
  int world = 1;
  uint32_t generation = 0;
  std::string program;   ///< hash of the program file
  std::string host;      ///< equal for ranks that share memory; empty: hostKey()
  std::string interface; ///< name or address for data; empty: the one that leads to the server
  Patience patience;
  int serverRank = -1; ///< the rank whose process has the server; -1: a launcher's
};

/// Joins the job; returns when all ranks have. Throws Error (BadInput) when the job rejects this rank, and Error
/// (Runtime) when the server cannot be reached or ranks do not join in time, naming them.
std::unique_ptr<Membership> joinJob(const MemberOptions &options);

/// A key that is equal for processes that can share memory: the same boot of the same machine, with the same network
/// and /dev/shm.
std::string hostKey();

} // namespace dtc::job
