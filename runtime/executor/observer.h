// Observing a running command list.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>
#include <string_view>

namespace dtc {

/// One executed command. Times are CLOCK_MONOTONIC nanoseconds (std::chrono::steady_clock). The times of a collective
/// or an asynchronous copy are those of its execution on its channel; a wait's are how long compute was blocked. On a
/// GPU all are GPU times.
struct CommandEvent {
  const abi::Command &command;
  std::string_view list;
  uint32_t index; ///< in the list
  int64_t begin, end;
  /// For a collective, a transfer or an asynchronous copy: compute has started it, in this time, and continues. It is
  /// reported again when it is over.
  bool isStart = false;
};

class Observer {
public:
  virtual ~Observer() = default;
  /// Called by the executor's thread at the end of a list, once for each finished command and for each start. A
  /// collective is reported in the list that waits for it, right before the wait.
  virtual void executed(const CommandEvent &event) = 0;
};

} // namespace dtc
