#include "runtime/liveness/failure_record.h"

#include "runtime/liveness/doorbells.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <cstring>

namespace dtc {

void FailureRecord::record(int name, std::string_view reason) noexcept {
  ControlMemory::Head &head = memory.head();
  uint32_t none = ControlMemory::Head::None;
  if (!head.failure.compare_exchange_strong(none, ControlMemory::Head::BeingWritten))
    return;
  head.failedRank = name;
  size_t length = std::min(reason.size(), sizeof(head.reason) - 1);
  std::memcpy(head.reason, reason.data(), length);
  head.reason[length] = 0;
  head.failure.store(ControlMemory::Head::Recorded);
  Doorbells(memory).ringAll();
}

std::optional<FailureNotice> FailureRecord::read() const {
  const ControlMemory::Head &head = memory.head();
  if (head.failure.load() != ControlMemory::Head::Recorded)
    return std::nullopt;
  return FailureNotice{head.failedRank, head.reason};
}

void FailureRecord::throwIfFailed() const {
  if (std::optional<FailureNotice> notice = read())
    throw PeerLostError(notice->rank, describeFailure(*notice));
}

std::string describeFailure(const FailureNotice &notice) {
  return (notice.rank < 0 ? "the launcher" : "rank " + std::to_string(notice.rank)) + " was lost: " + notice.reason;
}

} // namespace dtc
