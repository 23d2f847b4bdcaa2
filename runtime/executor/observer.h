// What may be watched of a running command list.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>
#include <string_view>

namespace dtc {

/// One executed command. Times are CLOCK_MONOTONIC nanoseconds (std::chrono::steady_clock). A collective's times are
/// those of its execution on its stream; a wait's are how long compute stood still.
struct CommandEvent {
  const abi::Command &command;
  std::string_view list;
  uint32_t index; ///< in the list
  int64_t begin, end;
};

class Observer {
public:
  virtual ~Observer() = default;
  /// Called after each command, on the thread that ran it: the executor's caller, or the communication thread for
  /// collectives. Both may call at once.
  virtual void executed(const CommandEvent &event) = 0;
};

} // namespace dtc
