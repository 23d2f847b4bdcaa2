// A link with a delay and a rate, between two network namespaces: packets from one's tap device go into the other's
// some time later. For measurements on systems without a queueing discipline that delays (netem).
//
//   bench_relay NAMESPACE NAMESPACE DELAY_MS RATE_MBPS
//
// In each namespace there is a tap device "data". A rate of 0 is unlimited. Runs until it is killed.
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t largestFrame = 65536;
/// How much may wait for its turn on the link: when that is full, senders wait, as with a network card.
constexpr size_t mostWaiting = 4 * largestFrame;

[[noreturn]] void fail(const std::string &what) {
  std::fprintf(stderr, "bench_relay: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

int openTap(const std::string &space) {
  int entered = open(("/run/netns/" + space).c_str(), O_RDONLY);
  if (entered < 0 || setns(entered, CLONE_NEWNET) < 0)
    fail("namespace " + space);
  close(entered);
  int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
  ifreq request{};
  std::strcpy(request.ifr_name, "data");
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (tap < 0 || ioctl(tap, TUNSETIFF, &request) < 0)
    fail("tap device of " + space);
  return tap;
}

/// One direction.
class Line {
public:
  Line(int from, int to, double delay, double rate) : from(from), to(to), delay(delay), rate(rate) {}

  bool mayRead() const { return waiting < mostWaiting; }

  void read(Clock::time_point now) {
    std::array<char, largestFrame> buffer;
    ssize_t bytes = ::read(from, buffer.data(), buffer.size());
    if (bytes <= 0)
      return;
    Clock::time_point leaves = std::max(now, free);
    if (rate > 0)
      leaves += std::chrono::nanoseconds(static_cast<int64_t>(1e9 * static_cast<double>(bytes) / rate));
    free = leaves;
    waiting += static_cast<size_t>(bytes);
    frames.push_back({leaves, leaves + std::chrono::nanoseconds(static_cast<int64_t>(1e9 * delay)),
                      {buffer.data(), buffer.data() + bytes}});
  }

  void write(Clock::time_point now) {
    while (left < frames.size() && frames[left].leaves <= now)
      waiting -= frames[left++].bytes.size();
    while (!frames.empty() && frames.front().arrives <= now) {
      (void)!::write(to, frames.front().bytes.data(), frames.front().bytes.size());
      frames.pop_front();
      --left;
    }
  }

  /// The latest time at which there is something to do.
  Clock::time_point next() const {
    Clock::time_point next = Clock::time_point::max();
    if (!frames.empty())
      next = frames.front().arrives;
    if (left < frames.size())
      next = std::min(next, frames[left].leaves);
    return next;
  }

private:
  struct Frame {
    Clock::time_point leaves, arrives;
    std::vector<char> bytes;
  };
  int from, to;
  double delay, rate;
  Clock::time_point free{};
  std::deque<Frame> frames; ///< the frames that have left come first
  size_t left = 0;          ///< how many have left
  size_t waiting = 0;       ///< bytes of those that have not left
};

} // namespace

int main(int argc, char **argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: bench_relay NAMESPACE NAMESPACE DELAY_MS RATE_MBPS\n");
    return 2;
  }
  int first = openTap(argv[1]), second = openTap(argv[2]);
  double delay = std::atof(argv[3]) / 1e3, rate = 1e6 * std::atof(argv[4]);
  std::array<Line, 2> lines = {Line(first, second, delay, rate), Line(second, first, delay, rate)};
  std::array<pollfd, 2> taps = {pollfd{first, POLLIN, 0}, pollfd{second, POLLIN, 0}};
  for (;;) {
    Clock::time_point now = Clock::now(), next = std::min(lines[0].next(), lines[1].next());
    timespec wait{1, 0};
    if (next != Clock::time_point::max())
      wait = {0, std::max<int64_t>(0, (next - now) / std::chrono::nanoseconds(1)) % 1'000'000'000};
    for (size_t i = 0; i < 2; ++i)
      taps[i].events = lines[i].mayRead() ? POLLIN : 0;
    ppoll(taps.data(), taps.size(), &wait, nullptr);
    now = Clock::now();
    for (size_t i = 0; i < 2; ++i) {
      if (taps[i].revents & POLLIN)
        lines[i].read(now);
      lines[i].write(now);
    }
  }
}
