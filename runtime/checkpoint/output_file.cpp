#include "runtime/checkpoint/output_file.h"

#include "runtime/abi/write_error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
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

OutputFile::OutputFile(const std::string &path, int descriptor, uint64_t size) {
  void *address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED)
    throw cannotWrite(path, errno);
  content = {static_cast<std::byte *>(address), size};
}

void OutputFile::release() const { madvise(content.data(), content.size(), MADV_DONTNEED); }

OutputFile::~OutputFile() { munmap(content.data(), content.size()); }

OutputFile OutputFile::create(const std::string &path, uint64_t size) {
  Descriptor file{::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (file.number < 0)
    throw cannotWrite(path, errno);
  if (int problem = posix_fallocate(file.number, 0, static_cast<off_t>(size)))
    throw cannotWrite(path, problem);
  return OutputFile(path, file.number, size);
}

OutputFile OutputFile::open(const std::string &path) {
  Descriptor file{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
  struct stat status;
  if (file.number < 0 || fstat(file.number, &status) != 0)
    throw cannotWrite(path, errno);
  return OutputFile(path, file.number, static_cast<uint64_t>(status.st_size));
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

static void toDisk(const fs::path &path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.number < 0 || fsync(file.number) != 0)
    throw cannotWrite(path, errno);
}

void publishDirectory(const fs::path &unfinished, const fs::path &final) {
  for (const fs::directory_entry &entry : fs::directory_iterator(unfinished))
    toDisk(entry.path());
  toDisk(unfinished);
  bool replaces = fs::exists(final);
  if (renameat2(AT_FDCWD, unfinished.c_str(), AT_FDCWD, final.c_str(), replaces ? RENAME_EXCHANGE : 0) != 0)
    throw cannotWrite(final, errno);
  toDisk(final.parent_path());
  std::error_code ignored;
  if (replaces)
    fs::remove_all(unfinished, ignored);
}

} // namespace dtc
