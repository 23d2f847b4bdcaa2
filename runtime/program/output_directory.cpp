#include "runtime/program/output_directory.h"

#include "runtime/checkpoint/checksums.h"
#include "runtime/checkpoint/find_checkpoints.h"
#include "runtime/program/run_files.h"
#include "runtime/support/output_file.h"
#include "runtime/support/write_error.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace dtc {

/// What a second job will be told.
static std::string describeSelf() {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  return fmt::format("process {} on {} since {:%Y-%m-%d %H:%M:%S} UTC", getpid(), host,
                     fmt::gmtime(std::time(nullptr)));
}

/// The holder's description; it comes from a file, so only characters that are harmless in a terminal.
static std::string describeHolder(int lock) {
  char text[300];
  ssize_t size = pread(lock, text, sizeof(text), 0);
  std::string holder;
  for (ssize_t i = 0; i < size && text[i] != '\n'; ++i)
    holder += text[i] >= ' ' && text[i] < 127 ? text[i] : '?';
  return holder.empty() ? "another process" : holder;
}

OutputDirectory::OutputDirectory(const std::string &path) : path(path), name(fs::path(path) / RunFiles::Lock) {
  try {
    for (int attempt = 0; !held; ++attempt) {
      bool isLast = attempt == 100;
      makeFolders(isLast);
      acquire(isLast);
    }
    sign();
  } catch (...) {
    release();
    throw;
  }
}

OutputDirectory::~OutputDirectory() { release(); }

/// A run that ends removes the empty folders that it had created, perhaps while we create ours in them: then try again.
void OutputDirectory::makeFolders(bool isLast) {
  std::error_code ignored;
  for (fs::path folder = path; !folder.empty() && !fs::exists(folder, ignored); folder = folder.parent_path())
    madeFolders.push_back(folder);
  std::error_code problem;
  fs::create_directories(path, problem);
  bool vanished = problem == std::errc::no_such_file_or_directory || problem == std::errc::file_exists;
  if (problem && (isLast || !vanished))
    createDirectories(path); // says what is wrong
}

/// Fails to hold it if the previous run ended between our opening and locking its file: then try again.
void OutputDirectory::acquire(bool isLast) {
  if (lock >= 0)
    close(lock);
  lock = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (lock < 0 && errno == ENOENT && !isLast)
    return;
  if (lock < 0)
    throw cannotWrite(name, errno);
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK)
      throw Error(fmt::format("cannot lock '{}': {}; choose a folder on another file system", escaped(name),
                              std::strerror(errno)));
    throw Error(ExitCode::BadInput,
                fmt::format("{} is writing there; wait for it, or choose another --out", describeHolder(lock)));
  }
  held = isCurrent();
  if (!held && isLast)
    throw Error(fmt::format("cannot lock '{}': it is replaced all the time; choose another folder", escaped(name)));
}

/// Whether the file that we opened still has its name.
bool OutputDirectory::isCurrent() const {
  struct stat opened, named;
  return fstat(lock, &opened) == 0 && stat(name.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

/// For the second job.
void OutputDirectory::sign() const {
  std::string self = describeSelf() + "\n";
  errno = ENOSPC; // a short write does not set errno
  if (ftruncate(lock, 0) != 0 || pwrite(lock, self.data(), self.size(), 0) != static_cast<ssize_t>(self.size()))
    throw cannotWrite(name, errno);
}

uint64_t OutputDirectory::identityOf(const std::string &path) {
  std::ifstream lock(fs::path(path) / RunFiles::Lock, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(lock)), std::istreambuf_iterator<char>());
  return text.empty() ? 0 : checksum(text);
}

void OutputDirectory::release() {
  // Removes it while it is locked: a process that has opened it in the meantime sees that it has no name any more.
  if (held && isCurrent())
    unlink(name.c_str());
  if (lock >= 0)
    close(lock);
  for (const std::string &folder : madeFolders)
    rmdir(folder.c_str()); // if nothing is in it
}

void OutputDirectory::requireFor(const std::string &resumed, bool passedOver) const {
  fs::path checkpoints = fs::path(path) / RunFiles::Checkpoints;
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
      throw Error(ExitCode::BadInput,
                  fmt::format("--out {}: it holds a later checkpoint than the one to go on from, '{}'; "
                              "remove it, or choose another --out",
                              path, found.front()));
    return;
  }
  fs::path metrics = fs::path(path) / RunFiles::Metrics;
  uintmax_t told = fs::file_size(metrics, ignored);
  bool hasMetrics = !ignored && told > 0;
  if (found.empty() && !hasMetrics)
    return;
  throw Error(ExitCode::BadInput,
              fmt::format("--out {}: it holds another run's results ('{}'); choose another --out, remove them{}", path,
                          found.empty() ? metrics.string() : found.front(),
                          resumed.empty() && !found.empty() ? ", or go on with that run by --resume " + path : ""));
}

} // namespace dtc
