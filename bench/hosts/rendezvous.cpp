// How long many ranks of one machine take to meet: processes that join a job's server, exchange a number and leave.
//   bench_rendezvous RANKS
// Prints the seconds from before the first process is started until all have the table of all ranks, and until all have
// met twice.
#include "runtime/job/member.h"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace dtc;
using Clock = std::chrono::steady_clock;

namespace {
/// When the last rank came this far; written by all, read when they have ended.
struct Times {
  std::atomic<int64_t> joined, met;
  void note(std::atomic<int64_t> &latest) {
    int64_t now = Clock::now().time_since_epoch().count();
    for (int64_t before = latest; before < now && !latest.compare_exchange_weak(before, now);)
      ;
  }
};
} // namespace

int main(int argc, char **argv) {
  int ranks = argc > 1 ? std::atoi(argv[1]) : 256;
  job::Key token = job::randomKey();
  void *memory = mmap(nullptr, sizeof(Times), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto &times = *new (memory) Times();
  // The port is known before the children start, and no child inherits the server's thread.
  Descriptor probe = job::listenAt({"127.0.0.1", 0});
  job::Endpoint place = job::localEndpoint(probe.get());
  probe = Descriptor();
  int64_t begin = Clock::now().time_since_epoch().count();
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank)
    if (pid_t child = fork(); child == 0) {
      job::MemberOptions options;
      options.server = place;
      options.token = token;
      options.rank = rank;
      options.world = ranks;
      options.program = "bench";
      try {
        auto member = job::joinJob(options);
        times.note(times.joined);
        member->exchange(rank);
        member->exchange(rank);
        times.note(times.met);
      } catch (const std::exception &error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        _exit(1);
      }
      _exit(0);
    } else {
      children.push_back(child);
    }
  job::ServerOptions serving;
  serving.listen = place;
  serving.token = token;
  serving.world = ranks;
  job::Server server(serving);
  int failed = 0;
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    failed += status != 0;
  }
  std::printf("%.3f %.3f\n", static_cast<double>(times.joined - begin) / 1e9,
              static_cast<double>(times.met - begin) / 1e9);
  return failed != 0;
}
