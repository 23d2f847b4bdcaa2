#include "runtime/launch/supervisor.h"

#include "runtime/abi/error.h"
#include "runtime/comm/shared_memory.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <optional>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dtc {

using Clock = std::chrono::steady_clock;

namespace {

/// How a rank failed.
struct Failure {
  int rank;
  int status; ///< of waitpid

  bool bySignal() const { return WIFSIGNALED(status); }
  int code() const { return bySignal() ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }
  bool isConsequence() const { return code() == static_cast<int>(ExitCode::PeerLost); }
};

/// The signals we wait for, blocked for the life of this object: they arrive in next() alone.
class BlockedSignals {
public:
  BlockedSignals() {
    sigemptyset(&set);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD})
      sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, &before);
  }
  ~BlockedSignals() { sigprocmask(SIG_SETMASK, &before, nullptr); }

  /// The next signal, or none within the time.
  std::optional<int> next(std::chrono::milliseconds time) const {
    timespec wait{time.count() / 1000, time.count() % 1000 * 1000000};
    int signal = sigtimedwait(&set, nullptr, &wait);
    return signal > 0 ? std::optional<int>(signal) : std::nullopt;
  }
  const sigset_t &original() const { return before; }

private:
  sigset_t set, before;
};

class Supervisor {
public:
  explicit Supervisor(const SupervisorOptions &options) : options(options), children(options.ranks, 0) {}
  int run();

private:
  void start(int rank);
  [[noreturn]] void becomeRank(int rank, int errorPipe, pid_t parent);
  void forward(int signal);
  void reap();
  int verdict() const;
  bool anyLeft() const {
    return std::ranges::any_of(children, [](pid_t child) { return child > 0; });
  }

  const SupervisorOptions &options;
  Rendezvous rendezvous;
  BlockedSignals signals;
  std::vector<pid_t> children;   // by rank; 0 once ended
  std::vector<Failure> failures; // in order of time
  std::optional<Clock::time_point> deadline;
  bool forwarded = false;
};

} // namespace

void Supervisor::becomeRank(int rank, int errorPipe, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(static_cast<int>(ExitCode::Runtime));
  sigprocmask(SIG_SETMASK, &signals.original(), nullptr);
  setenv("DTC_RANK", std::to_string(rank).c_str(), 1);
  setenv("DTC_WORLD", std::to_string(options.ranks).c_str(), 1);
  setenv("DTC_RENDEZVOUS", rendezvous.path().c_str(), 1);
  std::vector<char *> arguments;
  for (const std::string &argument : options.command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  int problem = errno;
  [[maybe_unused]] ssize_t written = write(errorPipe, &problem, sizeof(problem));
  _exit(static_cast<int>(ExitCode::Runtime));
}

void Supervisor::start(int rank) {
  int ends[2]; // closes by itself when the child becomes the program
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(fmt::format("cannot start rank {}: {}", rank, std::strerror(errno)));
  pid_t parent = getpid(), child = fork();
  if (child == 0)
    becomeRank(rank, ends[1], parent);
  int problem = child < 0 ? errno : 0;
  close(ends[1]);
  if (child > 0 && read(ends[0], &problem, sizeof(problem)) == sizeof(problem))
    waitpid(child, nullptr, 0);
  else
    children[rank] = std::max(child, 0);
  close(ends[0]);
  if (problem)
    throw Error(ExitCode::BadInput, fmt::format("cannot run '{}': {}", options.command[0], std::strerror(problem)));
}

void Supervisor::forward(int signal) {
  for (pid_t child : children)
    if (child > 0)
      kill(child, signal);
}

void Supervisor::reap() {
  for (int rank = 0; rank < options.ranks; ++rank) {
    int status;
    if (children[rank] <= 0 || waitpid(children[rank], &status, WNOHANG) != children[rank])
      continue;
    children[rank] = 0;
    if (status != 0)
      failures.push_back({rank, status});
  }
  if (!failures.empty() && !deadline)
    deadline = Clock::now() + options.grace;
}

int Supervisor::verdict() const {
  if (failures.empty())
    return 0;
  auto cause = std::ranges::find_if(failures, [](const Failure &failure) { return !failure.isConsequence(); });
  const Failure &first = cause == failures.end() ? failures.front() : *cause;
  if (forwarded)
    return first.code();
  if (first.bySignal()) {
    fmt::print(stderr, "dtc run: rank {} was ended by signal {} ({})\n", first.rank, WTERMSIG(first.status),
               strsignal(WTERMSIG(first.status)));
    return static_cast<int>(ExitCode::PeerLost);
  }
  fmt::print(stderr, "dtc run: rank {} failed first, with exit code {}\n", first.rank, first.code());
  return first.code();
}

int Supervisor::run() {
  try {
    for (int rank = 0; rank < options.ranks; ++rank)
      start(rank);
  } catch (const Error &) {
    forward(SIGKILL);
    for (pid_t child : children)
      if (child > 0)
        waitpid(child, nullptr, 0);
    throw;
  }
  while (anyLeft()) {
    // The time-out is for the deadline.
    std::optional<int> signal = signals.next(std::chrono::milliseconds(200));
    if (signal && *signal != SIGCHLD) {
      forwarded = true;
      forward(*signal);
    }
    reap();
    if (deadline && Clock::now() >= *deadline)
      forward(SIGKILL);
  }
  return verdict();
}

int superviseRanks(const SupervisorOptions &options) { return Supervisor(options).run(); }

} // namespace dtc
