// Which rank of a job failed first, and why.
#pragma once

#include "runtime/liveness/control_memory.h"

#include <optional>
#include <string>
#include <string_view>

namespace dtc {

struct FailureNotice {
  int rank; ///< the job's number of it; -1: it was the launcher
  std::string reason;
};

/// "rank 3 was lost: ..."; where there is no rank (-1), it was the launcher.
std::string describeFailure(const FailureNotice &notice);

/// The first failure that any rank of this host has found. All may be called from any thread.
class FailureRecord {
public:
  explicit FailureRecord(const ControlMemory &memory) : memory(memory) {}

  /// Records that the job's rank `name` failed, unless a failure is recorded already, and wakes everybody.
  void record(int name, std::string_view reason) noexcept;
  /// The failure that was recorded, if one was.
  std::optional<FailureNotice> read() const;
  /// Throws PeerLostError when one is recorded.
  void throwIfFailed() const;

private:
  ControlMemory memory;
};

} // namespace dtc
