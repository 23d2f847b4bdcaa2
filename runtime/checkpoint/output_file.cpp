#include "runtime/checkpoint/output_file.h"

#include "runtime/support/write_error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace fs = std::filesystem;

namespace dtc {

/// Closes on scope exit.
namespace {
struct Descriptor {
  int number;
  ~Descriptor() { close(number); }
};
} // namespace

OutputFile::OutputFile(const std::string &path)
    : path(path), descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) {
  if (descriptor < 0)
    throw cannotWrite(path, errno);
}

OutputFile::~OutputFile() {
  if (descriptor >= 0)
    close(descriptor);
}

/// Not posix_fallocate: where the file system cannot reserve, that reads and writes bytes here and there, which others
/// may be writing too.
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

/// Errors of a file on another machine may come no earlier than here.
void OutputFile::finish() {
  if (fsync(descriptor) != 0)
    throw cannotWrite(path, errno);
  if (close(std::exchange(descriptor, -1)) != 0)
    throw cannotWrite(path, errno);
}

void writeFile(const fs::path &path, std::string_view text) {
  Descriptor file{::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (file.number < 0)
    throw cannotWrite(path, errno);
  while (!text.empty()) {
    ssize_t count = write(file.number, text.data(), text.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      throw cannotWrite(path, errno);
    text.remove_prefix(static_cast<size_t>(count));
  }
  if (close(std::exchange(file.number, -1)) != 0)
    throw cannotWrite(path, errno);
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

static void toDisk(const fs::path &path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.number < 0 || fsync(file.number) != 0)
    throw cannotWrite(path, errno);
}

/// The errno of a renaming, or 0.
static int renameDirectory(const fs::path &from, const fs::path &to, unsigned flags) {
  return renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0 ? 0 : errno;
}

/// In one instant, where the file system can do that. NFS cannot, nor an overlay for folders of its lower layers: there
/// the old folder goes first. Returns the errno of what failed, or 0.
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
