// Ranks that are processes on one host and share the shared parts of their arenas through one memory file.
//
// The file holds a control block (barriers, liveness, failure notice) and every rank's shared part. There are two ways
// to name it. A launcher that starts all ranks creates a Rendezvous, an anonymous file that the children inherit and
// that no crash can leave behind. Ranks started by others (srun, mpirun) agree on a path in this user's directory under
// /dev/shm, which is removed as soon as all have opened it (job_file.h).
//
// Locks reveal a dead rank: each rank holds a lock on its own byte of the file. The system releases the lock when the
// process ends for any reason, zombie or not, whatever happens to its process ID.
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
  /// The launcher's view: it belongs to no rank, and may record and read failures.
  ControlBlock control() const;

private:
  int ranks;
  std::vector<int> names;
  int file;
  void *memory;
};

/// Reports that a rank started by a launcher gives up, even before it has connected: its peers and the launcher know at
/// once. Empty `words`: another rank explains what is wrong. Only the first failure of a job counts. `rank` of `ranks`:
/// on this host; `name`: its number in the job.
void reportFailure(const std::string &path, int rank, int ranks, int name, std::string_view words) noexcept;

struct SharedMemoryOptions {
  std::string path; ///< Rendezvous::path(), or a path unique to this job in one of this user's directories
  int rank = 0;     ///< among those of this host
  int size = 1;
  std::chrono::milliseconds connectTimeout{60000}; ///< how long to wait for the others to start
  std::vector<int> names{};                        ///< the numbers of these ranks in a job of several hosts
  HeartOptions heart{};
};

/// What connectSharedMemory makes its communicator from, for use in a communicator that spans hosts.
SharedArenas joinSharedMemory(const SharedMemoryOptions &options, Arena &arena);

/// Joins the job; returns when all ranks have. Replaces the shared part of `arena` by memory that peers see (its
/// contents are lost: join before filling it). `arena` outlives the communicator.
/// Throws Error (Runtime) when a rank does not join in time, naming it, or when memory is short, and like JobFile.
std::unique_ptr<Communicator> connectSharedMemory(const SharedMemoryOptions &options, Arena &arena);

} // namespace dtc
