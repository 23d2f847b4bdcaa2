#include "runtime/launch/supervisor.h"

#include "runtime/comm/local/shared_memory.h"
#include "runtime/liveness/flight_record.h"
#include "runtime/meeting/descriptor.h"
#include "runtime/support/error.h"
#include "runtime/support/limits.h"
#include "runtime/support/log_line.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <numeric>
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
  /// It stopped because it was asked to.
  bool isStop() const { return !bySignal() && code() > 128; }
  std::string text() const {
    return bySignal() ? fmt::format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
                      : fmt::format("ended with exit code {}", code());
  }
};

/// The signals to wait for, blocked while this object lives: they arrive only in next(). Ignored signals stay ignored.
/// SIGPIPE is ignored, because nobody may read our output.
class BlockedSignals {
public:
  BlockedSignals() {
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action;
      if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
        sigaddset(&set, signal);
    }
    sigprocmask(SIG_BLOCK, &set, &before);
    pipeBefore = std::signal(SIGPIPE, SIG_IGN);
  }
  ~BlockedSignals() { restore(); }
  BlockedSignals(const BlockedSignals &) = delete;
  BlockedSignals &operator=(const BlockedSignals &) = delete;

  void restore() const {
    std::signal(SIGPIPE, pipeBefore);
    sigprocmask(SIG_SETMASK, &before, nullptr);
  }

  /// The next signal, or nullopt if none comes within the time.
  std::optional<int> next(std::chrono::milliseconds time) const {
    timespec wait{time.count() / 1000, time.count() % 1000 * 1000000};
    int signal = sigtimedwait(&set, nullptr, &wait);
    return signal > 0 ? std::optional<int>(signal) : std::nullopt;
  }

private:
  sigset_t set, before;
  void (*pipeBefore)(int);
};

/// The numbers in the job of the ranks started here.
std::vector<int> namesOf(const SupervisorOptions &options) {
  std::vector<int> names(options.ranks);
  std::iota(names.begin(), names.end(), options.part.firstRank);
  return names;
}

class Supervisor {
public:
  explicit Supervisor(const SupervisorOptions &options)
      : options(options), rendezvous(options.ranks, namesOf(options)), control(rendezvous.control()),
        children(options.ranks, 0) {}
  SupervisorResult run();

private:
  void start();
  [[noreturn]] void becomeRank(int rank, int errorPipe, pid_t parent);
  void setVariables(int rank) const;
  void redirect(int rank) const;
  void forward(int signal);
  void stop(int signal);
  void reap();
  void record(int rank, int status);
  void killIfLate();
  const Failure *firstFailure() const;
  SupervisorResult verdict() const;
  std::string nodeName() const {
    return options.part.server.empty() ? "" : fmt::format("from-rank-{}", options.part.firstRank);
  }
  std::string wordsOn(const Failure &first) const;
  bool anyLeft() const {
    return std::ranges::any_of(children, [](pid_t child) { return child > 0; });
  }

  const SupervisorOptions &options;
  Rendezvous rendezvous;
  ControlBlock control;
  BlockedSignals signals;
  std::vector<pid_t> children;   // by rank; 0 once ended
  std::vector<Failure> failures; // in the order in which they were noticed
  std::vector<int> killed;       // by us
  std::optional<Clock::time_point> deadline;
  std::optional<Clock::time_point> stopDeadline;
  int forwarded = 0; // the first signal
};

} // namespace

void Supervisor::becomeRank(int rank, int errorPipe, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(static_cast<int>(ExitCode::Runtime));
  signals.restore();
  setVariables(rank);
  if (!options.logFolder.empty() && control.nameOf(rank) != 0)
    redirect(rank);
  std::vector<char *> arguments;
  for (const std::string &argument : options.command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  int problem = errno;
  [[maybe_unused]] ssize_t written = write(errorPipe, &problem, sizeof(problem));
  _exit(static_cast<int>(ExitCode::Runtime));
}

void Supervisor::setVariables(int rank) const {
  auto set = [](const char *name, const std::string &value) { setenv(name, value.c_str(), 1); };
  set("DTC_RANK", std::to_string(control.nameOf(rank)));
  set("DTC_WORLD", std::to_string(options.part.world ? options.part.world : options.ranks));
  set("DTC_LOCAL_RANK", std::to_string(rank));
  set("DTC_LOCAL_WORLD", std::to_string(options.ranks));
  set("DTC_RENDEZVOUS", rendezvous.path());
  set("DTC_GENERATION", std::to_string(options.generation));
  if (options.part.server.empty())
    unsetenv("DTC_SERVER");
  else
    set("DTC_SERVER", options.part.server);
}

/// Redirects a rank's output to its own file, and keeps the output of earlier starts there.
void Supervisor::redirect(int rank) const {
  std::string path = fmt::format("{}/rank-{:05}.log", options.logFolder, control.nameOf(rank));
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0)
    return; // it prints to our output
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
}

/// Starts all ranks, and only then waits for each to become the program or to report why it cannot: each wait takes as
/// long as it takes to get a core.
void Supervisor::start() {
  int ends[2]; // closes automatically when a child becomes the program
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(fmt::format("cannot start ranks: {}{}", std::strerror(errno), limitRemedy(errno)));
  Descriptor reading(ends[0]);
  auto refuse = [&](int problem) {
    throw Error(exitCodeOf(problem, ExitCode::BadInput),
                fmt::format("cannot run '{}': {}{}", options.command[0], std::strerror(problem), limitRemedy(problem)));
  };
  {
    Descriptor writing(ends[1]);
    pid_t parent = getpid();
    for (int rank = 0; rank < options.ranks; ++rank) {
      pid_t child = fork();
      if (child == 0)
        becomeRank(rank, ends[1], parent);
      if (child < 0)
        refuse(errno);
      children[rank] = child;
    }
  }
  int problem;
  ssize_t count;
  while ((count = read(reading.get(), &problem, sizeof(problem))) < 0 && errno == EINTR)
    ;
  if (count == sizeof(problem))
    refuse(problem);
}

void Supervisor::forward(int signal) {
  for (pid_t child : children)
    if (child > 0)
      kill(child, signal);
}

void Supervisor::stop(int signal) {
  if (!forwarded) {
    forwarded = signal;
    stopDeadline = Clock::now() + options.stopGrace;
    options.onSignal(signal);
  }
  forward(signal);
}

/// Peers must not wait for a rank that ended before it joined them. A rank that was stopped, or that leaves the message
/// to another rank, does not count as a failure.
void Supervisor::record(int rank, int status) {
  Failure failure{control.nameOf(rank), status};
  bool neverCame = status == 0 && !control.hasJoined(rank);
  bool isCause = status != 0 && !failure.isConsequence() && !failure.isStop() && !control.hasResigned(rank);
  if (forwarded || !(isCause || neverCame))
    return;
  control.fail(failure.rank, neverCame ? "it ended before it met its peers" : "it " + failure.text());
  options.onFailure(*control.failure());
}

void Supervisor::reap() {
  for (int rank = 0; rank < options.ranks; ++rank) {
    int status;
    if (children[rank] <= 0 || waitpid(children[rank], &status, WNOHANG) != children[rank])
      continue;
    children[rank] = 0;
    record(rank, status);
    if (status == 0)
      continue;
    failures.push_back({control.nameOf(rank), status});
    if (!deadline && !failures.back().isStop())
      deadline = Clock::now() + options.grace;
  }
}

void Supervisor::killIfLate() {
  // After a signal the ranks write a checkpoint, even if one of them has already failed.
  const std::optional<Clock::time_point> &due = stopDeadline ? stopDeadline : deadline;
  if (!due || Clock::now() < *due || !killed.empty())
    return;
  for (int rank = 0; rank < options.ranks; ++rank)
    if (children[rank] > 0)
      killed.push_back(control.nameOf(rank));
  if (stopDeadline && !killed.empty())
    logWarning(fmt::format(
        "killed {} {}, which had not stopped {:.3g} s after signal {} ({}); the last complete checkpoint is kept",
        killed.size() == 1 ? "rank" : "ranks", fmt::join(killed, ", "),
        std::chrono::duration<double>(options.stopGrace).count(), forwarded, strsignal(forwarded)));
  forward(SIGKILL);
}

/// The failure that the others follow from.
const Failure *Supervisor::firstFailure() const {
  auto find = [&](auto matches) {
    auto found = std::ranges::find_if(failures, matches);
    return found == failures.end() ? nullptr : &*found;
  };
  if (std::optional<FailureNotice> notice = control.failure())
    if (const Failure *first = find([&](const Failure &failure) { return failure.rank == notice->rank; }))
      return first;
  if (const Failure *cause = find([&](const Failure &failure) {
        return !failure.isConsequence() && !control.hasResigned(failure.rank - options.part.firstRank);
      }))
    return cause;
  return failures.data();
}

std::string withDuty(const SupervisorOptions &options, int rank, const std::string &words) {
  std::string duty = rank >= 0 && options.describeRank ? options.describeRank(rank) : "";
  return duty.empty() ? words : words + "; " + duty;
}

/// The message about the failure that the others follow from.
std::string Supervisor::wordsOn(const Failure &first) const {
  std::optional<FailureNotice> notice = control.failure();
  if (notice && notice->rank != first.rank) // one that ended normally but too early for its peers, or one on another
                                            // host
    return withDuty(options, notice->rank,
                    fmt::format("{} failed first: {}",
                                notice->rank < 0 ? "the launcher" : fmt::format("rank {}", notice->rank),
                                notice->reason));
  if (first.bySignal())
    return withDuty(options, first.rank, fmt::format("rank {} {}", first.rank, first.text()));
  std::string words = notice ? notice->reason : "";
  return withDuty(options, first.rank,
                  fmt::format("rank {} failed first, with exit code {}{}", first.rank, first.code(),
                              words.empty() || words == "it " + first.text() ? "" : ": " + words));
}

SupervisorResult Supervisor::verdict() const {
  SupervisorResult result;
  for (int rank = 0; rank < options.ranks; ++rank)
    result.checkpoint = std::max(result.checkpoint, control.whereabouts(rank).lastCheckpoint());
  if (failures.empty())
    return result;
  const Failure &first = *firstFailure();
  result.exitCode = first.code();
  if (forwarded && !killed.empty()) {
    result.exitCode = 128 + forwarded;
  } else if (!first.isStop() && !(forwarded && first.code() == 128 + forwarded)) {
    std::optional<FailureNotice> notice = control.failure();
    if (first.bySignal() || (notice && notice->rank != first.rank))
      result.exitCode = static_cast<int>(ExitCode::PeerLost);
    result.words = wordsOn(first);
    bool isBroken =
        std::ranges::any_of(failures, [](const Failure &each) { return each.bySignal() || each.isConsequence(); });
    if (options.describe && isBroken) // not if all found the same error
      result.record = writeFlightRecord(control, options.describe, nodeName());
    result.isLoss = !forwarded && isMendedByRestart(static_cast<ExitCode>(result.exitCode));
  }
  return result;
}

SupervisorResult Supervisor::run() {
  try {
    start();
  } catch (const Error &) {
    forward(SIGKILL);
    for (pid_t child : children)
      if (child > 0)
        waitpid(child, nullptr, 0);
    throw;
  }
  while (anyLeft()) {
    // The time-out serves the deadline and other launchers.
    std::optional<int> signal = signals.next(std::chrono::milliseconds(200));
    if (signal && *signal != SIGCHLD)
      stop(*signal);
    if (int told = options.awaitedSignal())
      told == SIGKILL ? forward(SIGKILL) : stop(told);
    if (!deadline && options.hasFailed())
      deadline = Clock::now() + options.grace;
    reap();
    killIfLate();
  }
  return verdict();
}

SupervisorResult superviseRanks(const SupervisorOptions &options) { return Supervisor(options).run(); }

} // namespace dtc
