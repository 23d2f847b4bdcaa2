#include "runtime/launch/remote_launchers.h"

#include "runtime/meeting/descriptor.h"
#include "runtime/support/error.h"
#include "runtime/support/log_line.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>

namespace dtc {

using namespace std::chrono_literals;
using job::Clock;

/// The pause between two starts on one host, if the remote shell ends at once.
static constexpr auto Pause = 2s;

RemoteLaunchers::RemoteLaunchers(const ClusterOptions &options) : options(options), children(options.hosts.size()) {
  for (size_t i = 0; i < children.size(); ++i)
    start(static_cast<int>(i) + 1);
}

RemoteLaunchers::~RemoteLaunchers() {
  for (auto deadline = Clock::now() + 2s; Child &child : children) {
    for (reap(child); child.process && Clock::now() < deadline; reap(child))
      std::this_thread::sleep_for(10ms);
    if (!child.process)
      continue;
    kill(child.process, SIGKILL);
    waitpid(child.process, nullptr, 0);
  }
}

void RemoteLaunchers::reap(Child &child) {
  if (child.process && waitpid(child.process, &child.status, WNOHANG) == child.process)
    child.process = 0;
}

[[noreturn]] static void becomeShell(const std::vector<std::string> &shell, const std::string &host,
                                     std::string command, int input, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent)
    _exit(1);
  setpgid(0, 0); // this process forwards Ctrl-C to it
  dup2(input, STDIN_FILENO);
  std::vector<char *> arguments;
  for (const std::string &word : shell)
    arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(const_cast<char *>(host.c_str()));
  arguments.push_back(command.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  logError(fmt::format("cannot run '{}': {}", arguments[0], std::strerror(errno)));
  _exit(1);
}

/// The shell may have ended before it reads: its exit code says why, so SIGPIPE must not end this process.
static void writeLine(int file, const std::string &line) {
  auto *before = std::signal(SIGPIPE, SIG_IGN);
  [[maybe_unused]] ssize_t written = write(file, line.data(), line.size());
  std::signal(SIGPIPE, before);
}

/// The token goes through the child's input: everybody can read a command line.
void RemoteLaunchers::start(int node) {
  const RemoteHost &host = options.hosts[node - 1];
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(fmt::format("cannot start a launcher on {}: {}", host.name, std::strerror(errno)));
  Descriptor input(ends[0]), output(ends[1]);
  std::string command = options.remoteCommand(node, host.ranks);
  pid_t parent = getpid(), child = fork();
  if (child == 0)
    becomeShell(options.remoteShell, host.name, command, input.get(), parent);
  if (child < 0)
    throw Error(fmt::format("cannot start a launcher on {}: {}", host.name, std::strerror(errno)));
  children[node - 1] = {child, 0, Clock::now(), {}};
  input = Descriptor();
  writeLine(output.get(), options.token + "\n");
}

void RemoteLaunchers::requireRunning(const std::vector<int> &absent) {
  for (int node : absent) {
    if (size_t(node) > children.size())
      continue;
    Child &child = children[node - 1];
    reap(child);
    if (child.process)
      continue;
    bool bySignal = WIFSIGNALED(child.status);
    int code = bySignal ? WTERMSIG(child.status) : WEXITSTATUS(child.status);
    bool isBadInput = !bySignal && code == static_cast<int>(ExitCode::BadInput);
    throw Error(isBadInput ? ExitCode::BadInput : ExitCode::Runtime,
                fmt::format("'{} {}' ended with {} {} before the launcher there (node {}) had reached {}; its output "
                            "is above. Try it by hand: {} {} true",
                            fmt::join(options.remoteShell, " "), options.hosts[node - 1].name,
                            bySignal ? "signal" : "exit code", code, node, options.server.text(),
                            fmt::join(options.remoteShell, " "), options.hosts[node - 1].name));
  }
}

/// A shell that is still running may be cut off: a launcher that can reconnect has done so by then.
void RemoteLaunchers::startAgain(const std::vector<int> &absent) {
  for (size_t i = 0; i < children.size(); ++i) {
    Child &child = children[i];
    int node = static_cast<int>(i) + 1;
    if (std::ranges::find(absent, node) == absent.end()) {
      child.missed.reset();
      continue;
    }
    reap(child);
    if (!child.missed)
      child.missed = Clock::now();
    if (child.process && Clock::now() - *child.missed > options.patience.start / 2)
      kill(child.process, SIGKILL);
    if (child.process || Clock::now() - child.begun < Pause)
      continue;
    logNews(fmt::format("starting the launcher on {} (node {}) again", options.hosts[i].name, node));
    start(node);
  }
}

} // namespace dtc
