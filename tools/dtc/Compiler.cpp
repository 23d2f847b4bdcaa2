#include "tools/dtc/Compiler.h"

#include "runtime/program/start/complete.h"
#include "runtime/support/error.h"
#include "runtime/support/log_line.h"
#include "tools/dtc/Process.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>

using namespace dtc;

std::string dtc::partPath(const std::string &name) {
  std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::filesystem::path beside = here / name, installed = here.parent_path() / "libexec/dtc" / name;
  return std::filesystem::exists(beside) ? beside : installed;
}

void dtc::becomeCompiler(char **argv) {
  std::string path = partPath("dtc-compile");
  // The compiler soon needs again what it frees between its passes. Its allocator would return that memory to the
  // system, which causes half of all page faults.
  setenv("MIMALLOC_ALLOW_DECOMMIT", "0", /*overwrite=*/0);
  execv(path.c_str(), argv);
  throw Error(fmt::format("cannot run {}, which compiles: {}; install dtc again", path, std::strerror(errno)));
}

void dtc::completeForProgram(std::vector<std::string> words) {
  std::string path = partPath("dtc-program"), verb = CompletionVerb;
  std::vector<char *> arguments = {path.data(), verb.data()};
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(path.c_str(), arguments.data());
  throw Error(fmt::format("cannot run {}, which programs are made of: {}", path, std::strerror(errno)));
}

static std::string readAll(int file) {
  std::string text;
  std::array<char, 1 << 16> part;
  for (ssize_t count; (count = read(file, part.data(), part.size())) != 0;) {
    if (count > 0)
      text.append(part.data(), count);
    else if (errno != EINTR)
      break;
  }
  return text;
}

namespace {
/// While it exists, signals that a terminal sends to the whole command are left to the child, as in system(3).
class LeaveInterrupts {
public:
  LeaveInterrupts() : interrupt(std::signal(SIGINT, SIG_IGN)), quit(std::signal(SIGQUIT, SIG_IGN)) {}
  ~LeaveInterrupts() { restore(); }
  LeaveInterrupts(const LeaveInterrupts &) = delete;
  LeaveInterrupts &operator=(const LeaveInterrupts &) = delete;
  void restore() const {
    std::signal(SIGINT, interrupt);
    std::signal(SIGQUIT, quit);
  }

private:
  void (*interrupt)(int), (*quit)(int);
};
} // namespace

CompilerAnswer dtc::askCompiler(std::vector<std::string> words) {
  std::string path = partPath("dtc-compile");
  std::vector<char *> arguments = {path.data()};
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int ends[2];
  if (pipe(ends) != 0)
    throw Error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  LeaveInterrupts leave;
  pid_t child = fork();
  if (child == 0) {
    leave.restore();
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execv(path.c_str(), arguments.data());
    _exit(1);
  }
  close(ends[1]);
  CompilerAnswer answer;
  if (child > 0)
    answer.text = readAll(ends[0]);
  close(ends[0]);
  int status = 1 << 8; // as if the child had ended with 1
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  answer.exitCode = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (answer.exitCode != 0)
    answer.text.clear();
  return answer;
}

nlohmann::json dtc::askForJson(std::vector<std::string> words, int *exitCode) {
  CompilerAnswer said = askCompiler(std::move(words));
  if (constexpr int bySignal = 128; said.exitCode > bySignal)
    std::raise(said.exitCode - bySignal); // the signal was meant for both processes
  if (exitCode)
    *exitCode = said.exitCode;
  nlohmann::json answer = nlohmann::json::parse(said.text, nullptr, /*exceptions=*/false);
  return answer.is_object() ? answer : nlohmann::json();
}

void dtc::requireCompiled(std::vector<std::string> words) {
  words.insert(words.begin(), partPath("dtc-compile"));
  std::string said;
  int code = runProcess(words, said);
  if (constexpr int bySignal = 128; code > bySignal)
    throw Error(fmt::format("the compiler was ended by signal {}", code - bySignal));
  if (code == 0)
    return;
  size_t begin = said.find(ErrorPrefix); // after its warnings
  said.erase(0, begin == std::string::npos ? 0 : begin + ErrorPrefix.size());
  throw Error(static_cast<ExitCode>(code), said.substr(0, said.find_last_not_of('\n') + 1));
}
