#include "runtime/abi/atomic_file.h"

#include "runtime/abi/error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dtc {

void requireReplaceable(const std::string &path) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    throw Error(ExitCode::Usage, "cannot write " + path + ": it is " +
                                     (S_ISDIR(status.st_mode) ? "a directory" : "not a regular file") +
                                     ", and would be replaced; choose another name");
}

AtomicFile::AtomicFile(const std::string &path) : path(path), temporary(path + ".XXXXXX") {
  requireReplaceable(path);
  file = mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0)
    fail();
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
      fail();
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
      rename(temporary.c_str(), path.c_str()) != 0) {
    int number = errno;
    unlink(temporary.c_str());
    errno = number;
    fail();
  }
}

void AtomicFile::fail() const { throw Error("cannot write " + path + ": " + std::strerror(errno)); }

} // namespace dtc
