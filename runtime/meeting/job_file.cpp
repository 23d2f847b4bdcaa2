#include "runtime/meeting/job_file.h"

#include "runtime/support/error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

namespace dtc {

[[noreturn]] static void throwSystemError(const std::string &what) {
  int number = errno;
  throw Error(what + ": " + std::strerror(number));
}

/// Requires that `what` belongs to this user and is private.
static void requireOwn(const struct stat &status, const std::string &what) {
  std::string remedy = "; dtc does not train in memory that other users can reach: remove it, or ask its owner to";
  if (status.st_uid != geteuid())
    throw Error(ExitCode::BadInput, what + " belongs to user " + std::to_string(status.st_uid) + ", not to user " +
                                        std::to_string(geteuid()) + remedy);
  if (status.st_mode & 077)
    throw Error(ExitCode::BadInput, what + " is open to other users" + remedy);
}

static struct flock byteLock(off_t first, off_t count) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = count;
  return lock;
}

/// Whether any other process holds a lock in the range; `count` 0: to the end.
static bool isRangeLocked(int file, off_t first, off_t count) {
  struct flock lock = byteLock(first, count);
  return fcntl(file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

//===----------------------------------------------------------------------===//
// The user's directory
//===----------------------------------------------------------------------===//

/// The directory of a file, locked for as long as this object lives.
class JobFile::Directory {
public:
  explicit Directory(const std::string &filePath) : path(filePath), name(filePath.substr(filePath.rfind('/') + 1)) {
    std::string parent = filePath.substr(0, filePath.rfind('/'));
    while (!openAndLock(parent))
      ;
  }
  ~Directory() { close(directory); }
  Directory(const Directory &) = delete;
  Directory &operator=(const Directory &) = delete;

  /// Opens the file of a running job, or else a new one.
  int openOrCreate() const {
    if (int file = openLiving(); file >= 0)
      return file;
    int file = openat(directory, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
      throwSystemError("cannot make " + path + ", in which the ranks meet");
    return file;
  }

  void remove(int file) const noexcept {
    struct stat named, opened;
    if (fstatat(directory, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(file, &opened) == 0 &&
        named.st_ino == opened.st_ino && named.st_dev == opened.st_dev)
      unlinkat(directory, name.c_str(), 0);
    rmdir(path.substr(0, path.rfind('/')).c_str()); // unless others use it
  }

private:
  /// Whether the directory still exists, now that it is locked.
  bool openAndLock(const std::string &parent) {
    if (mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST)
      throwSystemError("cannot make " + parent + ", where the ranks meet");
    directory = open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0 && errno == ENOENT) // another job has just removed it
      return false;
    struct stat status;
    if (directory < 0 || fstat(directory, &status) != 0)
      throwSystemError("cannot open " + parent + ", where the ranks meet");
    try {
      requireOwn(status, parent + ", where the ranks meet,");
    } catch (const Error &) {
      close(directory);
      throw;
    }
    while (flock(directory, LOCK_EX) != 0 && errno == EINTR)
      ;
    if (fstat(directory, &status) == 0 && status.st_nlink > 0)
      return true;
    close(directory);
    return false;
  }

  /// -1 if there is none; removes files that dead processes left.
  int openLiving() const {
    int file = openat(directory, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 && errno == ENOENT)
      return -1;
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0)
      throwSystemError("cannot open " + path + ", in which the ranks meet");
    try {
      requireOwn(status, path + ", in which the ranks meet,");
      if (!S_ISREG(status.st_mode) || status.st_nlink > 1)
        throw Error(ExitCode::BadInput, path + ", in which the ranks meet, is not a file of its own; remove it");
    } catch (const Error &) {
      close(file);
      throw;
    }
    if (isRangeLocked(file, 0, 0))
      return file;
    unlinkat(directory, name.c_str(), 0);
    close(file);
    return -1;
  }

  std::string path, name;
  int directory = -1;
};

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

JobFile::JobFile(std::string filePath, int rank) : path(std::move(filePath)) {
  try {
    if (isNamed()) {
      Directory directory(path);
      file = directory.openOrCreate();
      takeLock(rank); // before unlocking the directory: a file without locks looks like a dead job's
    } else {
      file = open(path.c_str(), O_RDWR | O_CLOEXEC);
      if (file < 0)
        throwSystemError("cannot open the memory that the ranks share, " + path);
      takeLock(rank);
    }
  } catch (const Error &) {
    if (file >= 0)
      close(file);
    throw;
  }
}

JobFile::~JobFile() { close(file); }

std::string JobFile::directoryIn(const std::string &root) {
  constexpr int Most = 100;
  std::string name = root + "/dtc-" + std::to_string(geteuid()), firstFree;
  for (int number = 0; number < Most; ++number) {
    std::string path = number ? name + "." + std::to_string(number) : name;
    struct stat status;
    bool isThere = lstat(path.c_str(), &status) == 0;
    if (isThere && status.st_uid == geteuid())
      return path;
    if (!isThere && firstFree.empty())
      firstFree = path;
  }
  return firstFree.empty() ? name : firstFree; // opening it fails with a message that names its owner
}

bool JobFile::isNamed() const { return path.rfind("/proc/", 0) != 0; }

void JobFile::takeLock(int rank) const {
  struct flock lock = byteLock(rank, 1);
  if (fcntl(file, F_OFD_SETLK, &lock) == 0)
    return;
  if (errno == EAGAIN || errno == EACCES)
    throw Error(ExitCode::BadInput,
                "two processes were started as rank " + std::to_string(rank) + " of one job (" + path + ")");
  throwSystemError("cannot lock " + path);
}

bool JobFile::isLocked(int rank) const { return isRangeLocked(file, rank, 1); }

/// An anonymous file is limited only by the machine's memory, a named one by its file system.
void JobFile::refuseIfTooLarge(uint64_t bytes) const {
  struct stat status;
  struct statvfs system;
  if (!isNamed() || fstat(file, &status) != 0 || fstatvfs(file, &system) != 0 || system.f_blocks == 0)
    return;
  uint64_t held = uint64_t(status.st_blocks) * 512, available = uint64_t(system.f_bavail) * system.f_frsize;
  uint64_t needed = bytes > held ? bytes - held : 0;
  if (needed > available)
    throw Error("the ranks need " + std::to_string(needed) + " bytes of shared memory, but the file system of " + path +
                " has " + std::to_string(available) +
                " available; free some, enlarge it (mount -o remount,size=... /dev/shm), or start the ranks by "
                "'dtc run', which does not need it");
}

void JobFile::grow(uint64_t bytes, bool allocate) {
  refuseIfTooLarge(bytes);
  // Allocating never shrinks a file, whereas truncating would if another rank has just grown it.
  uint64_t begin = allocate ? 0 : bytes - 1;
  if (int number = posix_fallocate(file, static_cast<off_t>(begin), static_cast<off_t>(bytes - begin)))
    throw Error("cannot get " + std::to_string(bytes) +
                " bytes for the memory that the ranks share: " + std::strerror(number));
}

void JobFile::removeName() const noexcept {
  if (!isNamed())
    return;
  try {
    Directory(path).remove(file);
  } catch (const std::exception &) { // it belonged to this user when the file was opened: nothing is left to do
  }
}

} // namespace dtc
