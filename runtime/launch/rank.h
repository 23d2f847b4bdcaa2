// Which rank am I, of how many, and where do we meet?
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace dtc {

struct RankIdentity {
  int rank = 0;
  int world = 1;
  std::string launcher;   ///< who said so, for messages; empty: nobody, a single process
  std::string rendezvous; ///< path under which the ranks of this host meet; empty for one rank
};

using Environment = std::function<std::optional<std::string>(const char *name)>;
Environment processEnvironment();

/// Looks for, in this order: DTC_RANK and DTC_WORLD (`dtc run`), OMPI_COMM_WORLD_* (mpirun), RANK and WORLD_SIZE
/// (torchrun), SLURM_PROCID and SLURM_NTASKS (srun; ignored outside a step, in a batch script itself).
/// Throws Error (BadInput) when a variable holds no number, a rank lies outside its world, or the ranks lie on several
/// hosts.
RankIdentity discoverRank(const Environment &environment);

} // namespace dtc
