// Why a job makes no progress: what is known about each rank, and what follows from it.
#pragma once

#include "runtime/liveness/failure_record.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

/// The peer that a rank has not heard from for the longest time on their direct connection.
struct SilentPeer {
  int rank = -1;
  std::chrono::milliseconds time{0};
  std::string link; ///< like Signs::link
};

/// What is known about one rank.
struct Signs {
  int rank = 0;
  std::chrono::milliseconds silent{0};       ///< since its process last gave a sign of life
  std::chrono::milliseconds systemSilent{0}; ///< since its host last did; equal to `silent` if unknown
  std::chrono::milliseconds still{0};        ///< since it last began a command, or began or ended a wait
  bool inList = false;                       ///< it is inside a command list, not between lists
  bool waiting = false;                      ///< for other ranks
  std::string place;                         ///< "list 'micro', command 7 (h.0.attn)"
  std::string link{};                        ///< "10.0.0.1 and 10.0.0.2", over which it is monitored
  SilentPeer silentPeer{};
};

/// The rank to blame if there has been no progress for `timeout`, and why; nullopt while all is well. The cases:
///   unreachable  neither the process nor its host give a sign, to the one who asks or to another rank
///   stopped      the host does, the process does not (SIGSTOP, a debugger, a machine out of memory)
///   hung         it lives and does not wait for others, but gets no further
///   at odds      all wait for each other
std::optional<FailureNotice> judge(const std::vector<Signs> &signs, std::chrono::milliseconds timeout);

} // namespace dtc
