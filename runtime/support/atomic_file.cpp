#include "runtime/support/atomic_file.h"

#include "runtime/support/write_error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dtc {

/// Where to write for `path`: a program that is told to write to /dev/stdout must not replace that link.
static std::string targetOf(const std::string &path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode))
    return path;
  requireOwnLink(path);
  char *target = realpath(path.c_str(), nullptr);
  if (!target)
    throw Error("cannot write '" + escaped(path) + "': it is a link that leads nowhere (" + std::strerror(errno) +
                "); remove it or choose another name");
  std::string result = target;
  std::free(target);
  return result;
}

static void requireReplaceable(const std::string &path, const std::string &target) {
  struct stat status;
  if (stat(target.c_str(), &status) != 0)
    return;
  if (!S_ISREG(status.st_mode))
    throw Error("cannot write '" + escaped(path) + "': it is " +
                (S_ISDIR(status.st_mode) ? "a directory" : "not a regular file") +
                ", and would be replaced; choose another name");
  // Its folder would let us, but who made it read-only meant it to stay.
  if (access(target.c_str(), W_OK) != 0)
    throw cannotWrite(path, errno);
}

void requireWritable(const std::string &path) { AtomicFile attempt(path); }

AtomicFile::AtomicFile(const std::string &path) : path(path), target(targetOf(path)), temporary(target + ".XXXXXX") {
  requireReplaceable(path, target);
  file = mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0)
    throw cannotWrite(path, errno);
}

AtomicFile::~AtomicFile() {
  if (file >= 0) {
    close(file);
    unlink(temporary.c_str());
  }
}

void AtomicFile::append(std::string_view bytes) {
  overwrite(written, bytes);
  written += bytes.size();
}

void AtomicFile::overwrite(uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t count = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno != EINTR)
      throw cannotWrite(path, errno);
    if (count > 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
      offset += static_cast<uint64_t>(count);
    }
  }
}

void AtomicFile::publish(unsigned mode) {
  mode_t mask = umask(0);
  umask(mask);
  if (fchmod(file, mode & ~mask) != 0 || close(std::exchange(file, -1)) != 0 ||
      rename(temporary.c_str(), target.c_str()) != 0) {
    int number = errno;
    unlink(temporary.c_str());
    throw cannotWrite(path, number);
  }
}

} // namespace dtc
