// Finds out which rank this is, of how many, and where the ranks meet.
#pragma once

#include "runtime/job/environment.h"

#include <cstdint>
#include <string>

namespace dtc {

struct RankIdentity {
  int rank = 0;
  int world = 1;
  int localRank = 0;       ///< index among the ranks of this host, as numbered by the launcher
  int localWorld = 1;      ///< ranks of this host
  std::string launcher;    ///< where this comes from, for messages; empty: a single process
  std::string rendezvous;  ///< path where the ranks of this host meet; empty for one rank, or to be found out
  std::string server;      ///< "host:port" where the ranks of several hosts meet; empty: all are on this one
  bool hasServer = false;  ///< the launcher listens there; else rank 0 does
  uint32_t generation = 0; ///< how often the launcher has restarted this job

  bool hasSeveralHosts() const { return !server.empty(); }
};

/// The default port where jobs on several hosts meet.
constexpr int DefaultPort = 29400;

/// Looks for, in this order: DTC_RANK and DTC_WORLD (`dtc run`), OMPI_COMM_WORLD_* (mpirun), RANK and WORLD_SIZE
/// (torchrun), SLURM_PROCID and SLURM_NTASKS (srun; ignored outside a step, in a batch script itself).
/// Ranks on several hosts meet at DTC_SERVER ("host:port"); without it at MASTER_ADDR and MASTER_PORT (or those with
/// PET_ before them), next to the port where torchrun itself listens; without these, under srun, at the first node of
/// the step. Throws Error (BadInput) when a variable is not a number, a rank is outside its world, or nothing says
/// where the ranks of several hosts meet.
RankIdentity discoverRank(const Environment &environment);

} // namespace dtc
