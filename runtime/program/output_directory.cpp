#include "runtime/program/output_directory.h"

#include "runtime/abi/error.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/output_file.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace dtc {

/// What the second job is told.
static std::string describeSelf() {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  return fmt::format("process {} on {} since {:%Y-%m-%d %H:%M:%S} UTC", getpid(), host,
                     fmt::gmtime(std::time(nullptr)));
}

/// The holder's words; they come from a file, so only letters that are harmless in a terminal.
static std::string describeHolder(int lock) {
  char text[300];
  ssize_t size = pread(lock, text, sizeof(text), 0);
  std::string holder;
  for (ssize_t i = 0; i < size && text[i] != '\n'; ++i)
    holder += text[i] >= ' ' && text[i] < 127 ? text[i] : '?';
  return holder.empty() ? "another process" : holder;
}

OutputDirectory::OutputDirectory(const std::string &path) : path(path) {
  createDirectories(path);
  // Never removed: who removed it could not know whether another had opened it by then.
  std::string name = fs::path(path) / "lock";
  lock = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  auto fail = [&](ExitCode code, const std::string &message) {
    if (lock >= 0)
      close(lock);
    throw Error(code, message);
  };
  if (lock < 0)
    fail(ExitCode::Runtime, fmt::format("cannot write '{}': {}", name, std::strerror(errno)));
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK)
      fail(ExitCode::Runtime, fmt::format("cannot lock '{}': {}", name, std::strerror(errno)));
    fail(ExitCode::Usage, fmt::format("--out {}: {} is writing there; wait for it, or choose another --out", path,
                                      describeHolder(lock)));
  }
  std::string self = describeSelf() + "\n";
  if (ftruncate(lock, 0) != 0 || pwrite(lock, self.data(), self.size(), 0) != static_cast<ssize_t>(self.size()))
    fail(ExitCode::Runtime, fmt::format("cannot write '{}': {}", name, std::strerror(errno)));
}

OutputDirectory::~OutputDirectory() { close(lock); }

void OutputDirectory::requireFor(const std::string &resumed, bool passedOver) const {
  fs::path checkpoints = fs::path(path) / "checkpoints";
  std::vector<std::string> found;
  try {
    found = findCheckpoints(checkpoints);
  } catch (const Error &) { // none
  }
  std::error_code ignored;
  bool continues = !resumed.empty() && fs::equivalent(fs::path(resumed) / "..", checkpoints, ignored);
  if (continues) {
    bool isLatest = fs::equivalent(found.front(), resumed, ignored);
    if (!isLatest && !passedOver)
      throw Error(ExitCode::Usage,
                  fmt::format("--out {}: it holds a later checkpoint than the one to go on from, '{}'; "
                              "remove it, or choose another --out",
                              path, found.front()));
    return;
  }
  fs::path metrics = fs::path(path) / "metrics.jsonl";
  uintmax_t told = fs::file_size(metrics, ignored);
  bool hasMetrics = !ignored && told > 0;
  if (found.empty() && !hasMetrics)
    return;
  throw Error(ExitCode::Usage,
              fmt::format("--out {}: it holds another run's results ('{}'); choose another --out, remove them{}", path,
                          found.empty() ? metrics.string() : found.front(),
                          resumed.empty() && !found.empty() ? ", or go on with that run by --resume " + path : ""));
}

} // namespace dtc
