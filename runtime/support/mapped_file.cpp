#include "runtime/support/mapped_file.h"

#include "runtime/support/limits.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dtc {

[[noreturn]] static void fail(const std::string &path, const std::string &why) {
  throw Error(ExitCode::BadInput, fmt::format("cannot read '{}': {}", path, why));
}

[[noreturn]] static void fail(const std::string &path, int number) {
  throw Error(exitCodeOf(number, ExitCode::BadInput),
              fmt::format("cannot read '{}': {}{}", path, std::strerror(number), limitRemedy(number)));
}

int openInput(const std::string &path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0)
    fail(path, errno);
  if (!S_ISREG(status.st_mode)) // opening a device may have side effects, and for a socket it fails with a different
                                // message
    fail(path, "not a regular file");
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    fail(path, errno);
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode))
    return file;
  close(file); // another file has taken its place
  fail(path, "not a regular file");
}

MappedFile::MappedFile(const std::string &path) : name(path) {
  int descriptor = openInput(path);
  struct stat status;
  int problem = fstat(descriptor, &status) == 0 ? 0 : errno;
  size = problem ? 0 : static_cast<size_t>(status.st_size);
  if (size != 0) {
    void *address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    problem = address == MAP_FAILED ? errno : 0;
    data = problem ? nullptr : static_cast<const std::byte *>(address);
  }
  close(descriptor);
  if (problem)
    fail(path, problem);
}

/// The first and last pages may hold other parts, which are then read again.
void MappedFile::release(std::span<const std::byte> part) const {
  auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), first = reinterpret_cast<uintptr_t>(part.data());
  uintptr_t begin = first & ~(page - 1);
  if (!part.empty())
    madvise(reinterpret_cast<void *>(begin), first + part.size() - begin, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data)
    munmap(const_cast<std::byte *>(data), size);
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : name(std::move(other.name)), data(std::exchange(other.data, nullptr)), size(std::exchange(other.size, 0)) {}

} // namespace dtc
