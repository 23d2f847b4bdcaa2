// What may be watched of a running command list.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>
#include <string_view>

namespace dtc {

/// One executed command. Times are CLOCK_MONOTONIC nanoseconds (std::chrono::steady_clock). A collective's times, and
/// those of a copy beside launches, are those of its execution on its channel; a wait's are how long compute stood
/// still. On a GPU all are the GPU's.
struct CommandEvent {
  const abi::Command &command;
  std::string_view list;
  uint32_t index; ///< in the list
  int64_t begin, end;
  /// Of a collective, a transfer or a copy beside launches: compute has started it, in this time, and goes on. It is
  /// told again when it is over.
  bool isStart = false;
};

class Observer {
public:
  virtual ~Observer() = default;
  /// Called once for each command that is over, and for each start, by the executor's caller when a list is: for a
  /// collective in which it has been waited for, right before the wait.
  virtual void executed(const CommandEvent &event) = 0;
};

} // namespace dtc
