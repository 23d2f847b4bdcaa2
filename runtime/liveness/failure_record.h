// Which rank of a job failed first, and why.
#pragma once

#include "runtime/liveness/control_memory.h"

#include <optional>
#include <string>
#include <string_view>

namespace dtc {

struct FailureNotice {
  int rank; ///< its number in the job; -1: it was the launcher
  std::string reason;
};

/// "rank 3 was lost: ..."; rank -1 is the launcher.
std::string describeFailure(const FailureNotice &notice);

/// The first failure that any rank of this host has found. All functions may be called from any thread.
class FailureRecord {
public:
  explicit FailureRecord(const ControlMemory &memory) : memory(memory) {}

  /// Records that the job's rank `name` failed, unless a failure is already recorded, and wakes all ranks.
  void record(int name, std::string_view reason) noexcept;
  /// The recorded failure, if any.
  std::optional<FailureNotice> read() const;
  /// Throws PeerLostError when one is recorded.
  void throwIfFailed() const;

private:
  ControlMemory memory;
};

} // namespace dtc
