// The thread by which a rank shows that its process runs, and looks whether those of the same host do.
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

/// Where a rank stands, in words.
using DescribePlace = std::function<std::string(int rank, const CommandPlace &place)>;

struct HeartOptions {
  /// How long a rank may give no sign, or be awaited; zero: somebody else judges (job/server.h).
  std::chrono::milliseconds watchdog{0};
  DescribePlace describe;
};

class Heart : NotCopied {
public:
  static constexpr std::chrono::milliseconds Interval{250};
  /// Who has not come to look for so long was itself stopped, and has no right to speak of others.
  static constexpr std::chrono::milliseconds OwnSilence{1000};

  /// Begins to beat. `control`: a view of this rank's own.
  Heart(ControlBlock control, HeartOptions options);
  ~Heart();

private:
  using Clock = std::chrono::steady_clock;

  /// What was seen of a rank, and since when it has been so.
  struct Seen {
    uint64_t beats = 0, moves = 0;
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
