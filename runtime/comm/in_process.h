// Ranks that are threads of one process: tests, `dtc verify`-like tools, and single-rank runs.
#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/device/arena.h"

#include <memory>

namespace dtc {

/// Where the threads of one job meet. Lives as long as any of its communicators.
class InProcessJob {
public:
  explicit InProcessJob(int size);
  ~InProcessJob();

  /// Called once by each rank's thread; returns when all ranks have joined. `arena` outlives all
  /// communicators of the job: when one rank fails, others may be in the middle of reading it.
  std::unique_ptr<Communicator> join(int rank, Arena &arena);

private:
  struct State;
  std::shared_ptr<State> state;
};

} // namespace dtc
