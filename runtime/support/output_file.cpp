#include "runtime/support/output_file.h"

#include "runtime/support/write_error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace fs = std::filesystem;

namespace dtc {

//===----------------------------------------------------------------------===//
// A file that is open
//===----------------------------------------------------------------------===//

OutputFile::OutputFile(const std::string &path)
    : OutputFile(path, ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) {}

OutputFile::OutputFile(const std::string &path, int descriptor) : path(path), descriptor(descriptor) {
  if (descriptor < 0)
    throw cannotWrite(path, errno);
}

OutputFile::~OutputFile() {
  if (descriptor >= 0)
    ::close(descriptor);
}

/// Not posix_fallocate: if the file system cannot reserve, it reads and writes scattered bytes, which others may be
/// writing, too.
void OutputFile::reserve(uint64_t size) {
  int result;
  while ((result = fallocate(descriptor, 0, 0, static_cast<off_t>(size))) != 0 && errno == EINTR)
    ;
  if (result != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
    throw cannotWrite(path, errno);
}

void OutputFile::write(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t count = pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      throw cannotWrite(path, errno);
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
}

void OutputFile::allow(unsigned mode) {
  mode_t mask = umask(0);
  umask(mask);
  if (fchmod(descriptor, mode & ~mask) != 0)
    throw cannotWrite(path, errno);
}

/// Errors of a remote file may be reported only here.
void OutputFile::close() {
  if (::close(std::exchange(descriptor, -1)) != 0)
    throw cannotWrite(path, errno);
}

void OutputFile::finish() {
  if (fsync(descriptor) != 0)
    throw cannotWrite(path, errno);
  close();
}

//===----------------------------------------------------------------------===//
// A single file
//===----------------------------------------------------------------------===//

/// Where to write for `path`: an output named /dev/stdout must not replace that link.
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
  // The folder would allow replacing it, but whoever made it read-only wanted to keep it.
  if (access(target.c_str(), W_OK) != 0)
    throw cannotWrite(path, errno);
}

/// Opens a new file next to `target` and puts its name into `temporary`; returns its descriptor, or -1 and errno.
static int openBeside(const std::string &path, const std::string &target, std::string &temporary) {
  requireReplaceable(path, target);
  temporary = target + ".XXXXXX";
  return mkostemp(temporary.data(), O_CLOEXEC);
}

void requireWritable(const std::string &path) { AtomicFile attempt(path); }

AtomicFile::AtomicFile(const std::string &path)
    : path(path), target(targetOf(path)), file(path, openBeside(path, target, temporary)) {}

AtomicFile::~AtomicFile() { removeTemporary(); }

void AtomicFile::removeTemporary() {
  if (!temporary.empty())
    unlink(temporary.c_str());
  temporary.clear();
}

void AtomicFile::append(std::string_view bytes) {
  overwrite(written, bytes);
  written += bytes.size();
}

void AtomicFile::overwrite(uint64_t offset, std::string_view bytes) {
  file.write(offset, std::as_bytes(std::span(bytes)));
}

void AtomicFile::publish(unsigned mode) {
  try {
    file.allow(mode);
    file.close();
    if (rename(temporary.c_str(), target.c_str()) != 0)
      throw cannotWrite(path, errno);
  } catch (...) {
    removeTemporary();
    throw;
  }
  temporary.clear();
}

//===----------------------------------------------------------------------===//
// A folder of files
//===----------------------------------------------------------------------===//

void writeFile(const fs::path &path, std::string_view text) {
  OutputFile file(path.string(), ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  file.write(0, std::as_bytes(std::span(text)));
  file.close();
}

void createDirectories(const fs::path &path) {
  std::error_code problem;
  fs::create_directories(path, problem);
  if (problem)
    throw cannotWrite(path, problem.value());
}

void createDirectory(const fs::path &path) {
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
    throw cannotWrite(path, errno);
}

/// Brings a file, or the names in a folder, to disk.
static void toDisk(const fs::path &path) {
  OutputFile(path.string(), ::open(path.c_str(), O_RDONLY | O_CLOEXEC)).finish();
}

/// The errno of a renaming, or 0.
static int renameDirectory(const fs::path &from, const fs::path &to, unsigned flags) {
  return renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0 ? 0 : errno;
}

/// Atomically, if the file system can do that. NFS cannot, nor can an overlay for folders of its lower layers: there
/// the old folder is removed first. Returns the errno of what failed, or 0.
static int replaceDirectory(const fs::path &unfinished, const fs::path &final) {
  int problem = renameDirectory(unfinished, final, RENAME_EXCHANGE);
  if (problem != EINVAL && problem != EXDEV && problem != ENOSYS && problem != EOPNOTSUPP)
    return problem;
  std::error_code old;
  fs::remove_all(final, old);
  return old ? old.value() : renameDirectory(unfinished, final, 0);
}

void publishDirectory(const fs::path &unfinished, const fs::path &final) {
  for (const fs::directory_entry &entry : fs::directory_iterator(unfinished))
    toDisk(entry.path());
  toDisk(unfinished);
  bool replaces = fs::exists(final);
  if (int problem = replaces ? replaceDirectory(unfinished, final) : renameDirectory(unfinished, final, 0))
    throw cannotWrite(final, problem);
  toDisk(final.parent_path());
  std::error_code ignored;
  if (replaces)
    fs::remove_all(unfinished, ignored);
}

} // namespace dtc
