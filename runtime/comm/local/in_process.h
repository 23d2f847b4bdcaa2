// Ranks that are threads of one process: tests, `dtc verify`-like tools, and single-rank runs.
#pragma once

#include "runtime/comm/local/peer_memory.h"
#include "runtime/device/arena.h"

#include <memory>
#include <vector>

namespace dtc {

/// Where the threads of one job meet. Lives as long as any of its communicators.
class InProcessJob {
public:
  /// `names`: the ranks' numbers if they are one host's part of a larger job.
  explicit InProcessJob(int size, std::vector<int> names = {});
  ~InProcessJob();

  /// Called once by each rank's thread; returns when all ranks have joined. `arena` outlives all
  /// communicators of the job: when one rank fails, others may be in the middle of reading it.
  std::unique_ptr<Communicator> join(int rank, Arena &arena);
  /// What join() makes its communicator from.
  SharedArenas joinArenas(int rank, Arena &arena);

private:
  struct State;
  std::shared_ptr<State> state;
};

} // namespace dtc
