#include "tools/dtc/text/TokenizerProcess.h"

#include "runtime/support/error.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

extern char **environ;

namespace fs = std::filesystem;

namespace dtc {

std::optional<std::string> findTokenizer(const std::string &folder) {
  // Where both exist they are the same tokenizer, and the first also states special tokens.
  for (const char *name : {"tokenizer.json", "tokenizer.model", "spiece.model"})
    if (std::string file = fs::path(folder) / name; fs::exists(file))
      return file;
  return std::nullopt;
}

std::string tokenizerFile(const std::string &path) {
  if (!fs::exists(path))
    throw Error(ExitCode::BadInput, fmt::format("--tokenizer {}: there is no such file or folder", path));
  if (!fs::is_directory(path))
    return path;
  if (std::optional<std::string> file = findTokenizer(path))
    return *file;
  throw Error(
      ExitCode::BadInput,
      fmt::format("--tokenizer {}: no tokenizer.json in it, and no tokenizer.model of sentencepiece; transformers "
                  "makes the first: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
                  path));
}

TokenizerProcess::TokenizerProcess(std::vector<std::string> command) : name(command.front()) { start(command); }

TokenizerProcess::~TokenizerProcess() {
  closeInput();
  stop();
  awaitExit();
  if (output)
    std::fclose(output);
}

void TokenizerProcess::start(std::vector<std::string> &command) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
    throw Error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  input = in[1];
  output = fdopen(out[0], "rb");
  std::vector<char *> words;
  for (std::string &word : command)
    words.push_back(word.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  int problem = posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  if (problem != 0) {
    child = -1;
    throw Error(fmt::format("cannot run {}, which tokenizes: {}; install it, or put it into PATH", name,
                            std::strerror(problem)));
  }
}

void TokenizerProcess::stop() const {
  if (child > 0)
    kill(child, SIGKILL);
}

int TokenizerProcess::awaitExit() {
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  child = -1;
  return status;
}

void TokenizerProcess::failEnded() {
  int status = awaitExit();
  std::string how = WIFSIGNALED(status) ? fmt::format("by signal {}", WTERMSIG(status))
                                        : fmt::format("with exit code {}", WEXITSTATUS(status));
  throw Error(
      fmt::format("{}, which tokenizes, has ended {} before its work was done; what it says is above", name, how));
}

nlohmann::json TokenizerProcess::readHeader() {
  char *line = nullptr;
  size_t size = 0;
  ssize_t count = getline(&line, &size, output);
  std::string text(line ? line : "", count > 0 ? static_cast<size_t>(count) : 0);
  std::free(line);
  auto header = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object())
    failEnded();
  if (auto error = header.find("error"); error != header.end())
    throw Error(ExitCode::BadInput, error->get<std::string>());
  return header;
}

void TokenizerProcess::closeInput() {
  if (input >= 0)
    close(std::exchange(input, -1));
}

void TokenizerProcess::write(const void *data, size_t size) const {
  for (const char *at = static_cast<const char *>(data); size != 0;) {
    ssize_t count = ::write(input, at, size);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      throw Ended();
    at += count;
    size -= static_cast<size_t>(count);
  }
}

bool TokenizerProcess::read(void *data, size_t size) { return std::fread(data, 1, size, output) == size; }

} // namespace dtc
