#include "passes/schedule/launches/JoinStarts.h"

#include "runtime/abi/commands.h"

namespace dtc {

std::vector<bool> joinStarts(std::span<const StartEvent> events, size_t starts) {
  using Kind = StartEvent::Kind;
  std::vector<int> awaitedBefore(starts, -1); // for each start: which one is waited for right before it
  for (size_t i = 1; i < events.size(); ++i)
    if (events[i].kind == Kind::Wait && events[i - 1].kind == Kind::Wait)
      awaitedBefore[static_cast<size_t>(events[i].start)] = events[i - 1].start;
  std::vector<bool> joined(starts);
  int parts = 1;
  for (size_t i = 1; i < events.size(); ++i) {
    const StartEvent &event = events[i], &before = events[i - 1];
    bool isJoined = event.kind == Kind::Start && before.kind == Kind::Start && event.bucket >= 0 &&
                    event.bucket == before.bucket && parts < abi::MaximumParts &&
                    awaitedBefore[static_cast<size_t>(event.start)] == before.start;
    parts = isJoined ? parts + 1 : 1;
    if (isJoined)
      joined[static_cast<size_t>(event.start)] = true;
  }
  return joined;
}

} // namespace dtc
