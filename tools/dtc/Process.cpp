#include "tools/dtc/Process.h"

#include "runtime/support/error.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace dtc {

namespace {
/// Leaves Ctrl-C to a child, in which the signal has its default action.
class Uninterrupted {
public:
  Uninterrupted() : before(std::signal(SIGINT, SIG_IGN)) {
    posix_spawnattr_init(&attributes);
    if (before == SIG_IGN)
      return;
    sigset_t interrupts;
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGINT);
    posix_spawnattr_setsigdefault(&attributes, &interrupts);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  }
  ~Uninterrupted() {
    posix_spawnattr_destroy(&attributes);
    std::signal(SIGINT, before);
  }
  Uninterrupted(const Uninterrupted &) = delete;
  Uninterrupted &operator=(const Uninterrupted &) = delete;

  posix_spawnattr_t attributes;

private:
  void (*before)(int);
};
} // namespace

static pid_t start(std::vector<std::string> &command, int output, bool withErrors,
                   const posix_spawnattr_t &attributes) {
  std::vector<char *> words;
  words.reserve(command.size() + 1);
  for (std::string &word : command)
    words.push_back(word.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  if (withErrors)
    posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  pid_t child = -1;
  int problem = posix_spawn(&child, words[0], &actions, &attributes, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0)
    throw Error(fmt::format("cannot run {}: {}", command.front(), std::strerror(problem)));
  return child;
}

int runProcess(std::vector<std::string> command, const std::function<bool(const std::string &)> &line,
               bool withErrors) {
  Uninterrupted uninterrupted;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  pid_t child = start(command, ends[1], withErrors, uninterrupted.attributes);
  close(ends[1]);
  std::FILE *output = fdopen(ends[0], "r");
  char *text = nullptr;
  size_t room = 0;
  bool isWanted = true;
  for (ssize_t count; (count = getline(&text, &room, output)) > 0;) {
    bool goesOn = line(std::string(text, static_cast<size_t>(text[count - 1] == '\n' ? count - 1 : count)));
    if (isWanted && !goesOn)
      kill(child, SIGTERM);
    isWanted = isWanted && goesOn;
  }
  std::free(text);
  std::fclose(output);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int runProcess(std::vector<std::string> command, std::string &said) {
  auto keep = [&](const std::string &line) {
    said += line + "\n";
    return true;
  };
  return runProcess(std::move(command), keep, /*withErrors=*/true);
}

} // namespace dtc
