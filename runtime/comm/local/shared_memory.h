// Ranks that are processes of one host, sharing the shared parts of their arenas through one file in memory.
//
// The file holds a control block (barriers, liveness, failure notice) and every rank's shared part. Two ways to name
// it: a launcher that starts all ranks makes a Rendezvous, an anonymous file that the children inherit and that no
// crash can leave behind; ranks started by others (srun, mpirun) agree on a path in this user's directory under
// /dev/shm, which is removed as soon as all have opened it (job_file.h).
//
// A dead rank is noticed by its lock: each rank holds a lock on its own byte of the file, which the system drops when
// the process ends for whatever reason, zombie or not, whatever becomes of its process number.
#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/comm/local/peer_memory.h"
#include "runtime/device/arena.h"
#include "runtime/liveness/control_block.h"
#include "runtime/liveness/heart.h"
#include "runtime/support/not_copied.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace dtc {

/// An anonymous file made by the launcher before it starts the ranks. They inherit its descriptor across exec.
class Rendezvous : NotCopied {
public:
  /// `names`: the numbers of these ranks in a job of several hosts.
  explicit Rendezvous(int ranks, std::vector<int> names = {});
  ~Rendezvous();

  /// The path under which the children open it.
  std::string path() const;
  /// The launcher's view: it belongs to no rank, may record failures and read them.
  ControlBlock control() const;

private:
  int ranks;
  std::vector<int> names;
  int file;
  void *memory;
};

/// What a rank of a launcher says when it gives up, also before it has connected: its peers and the launcher know at
/// once. Empty words: another rank tells what is wrong. The first failure of a job stands. `rank` of `ranks`: of this
/// host; `name`: its number in the job.
void reportFailure(const std::string &path, int rank, int ranks, int name, std::string_view words) noexcept;

struct SharedMemoryOptions {
  std::string path; ///< Rendezvous::path(), or a path unique to this job in a directory of this user's
  int rank = 0;     ///< among those of this host
  int size = 1;
  std::chrono::milliseconds connectTimeout{60000}; ///< how long to wait for the others to start
  std::vector<int> names{};                        ///< the numbers of these ranks in a job of several hosts
  HeartOptions heart{};
};

/// What connectSharedMemory makes its communicator of, for one that reaches further than this host.
SharedArenas joinSharedMemory(const SharedMemoryOptions &options, Arena &arena);

/// Joins the job; returns when all ranks have. Replaces the shared part of `arena` by memory that peers see (its
/// contents are lost: join before filling it). `arena` outlives the communicator.
/// Throws Error (Runtime) when a rank does not come in time, naming it, or memory is short, and as JobFile does.
std::unique_ptr<Communicator> connectSharedMemory(const SharedMemoryOptions &options, Arena &arena);

} // namespace dtc
