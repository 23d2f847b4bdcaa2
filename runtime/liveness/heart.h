// The thread with which a rank shows that its process is running, and checks the other ranks of its host.
#pragma once

#include "runtime/liveness/control_block.h"
#include "runtime/liveness/watch.h"
#include "runtime/support/not_copied.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace dtc {

/// Describes a rank's position, for messages.
using DescribePlace = std::function<std::string(int rank, const CommandPlace &place)>;

struct HeartOptions {
  /// How long a rank may be silent or keep others waiting; zero: the job's server decides (job/server.h).
  std::chrono::milliseconds watchdog{0};
  DescribePlace describe;
};

class Heart : NotCopied {
public:
  static constexpr std::chrono::milliseconds Interval{250};
  /// A rank that has not checked for this long was itself stopped, and must not accuse others.
  static constexpr std::chrono::milliseconds OwnSilence{1000};

  /// Starts beating. `control`: this rank's own view.
  Heart(ControlBlock control, HeartOptions options);
  ~Heart();

private:
  using Clock = std::chrono::steady_clock;

  /// The last observation of a rank, and since when it has been unchanged.
  struct Seen {
    uint64_t beats = 0, progress = 0;
    Clock::time_point heard, moved;
  };

  void run();
  void look(Clock::time_point now);

  ControlBlock control;
  HeartOptions options;
  std::vector<Seen> seen;
  std::mutex mutex;
  std::condition_variable end;
  bool ending = false;
  std::thread thread;
};

} // namespace dtc
