#include "runtime/data/mapped_file.h"

#include "runtime/abi/error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dtc {

MappedFile::MappedFile(const std::string &path) : name(path) {
  auto fail = [&](int descriptor, const std::string &why) {
    if (descriptor >= 0)
      close(descriptor);
    throw Error(ExitCode::BadInput, fmt::format("cannot read '{}': {}", path, why));
  };
  int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status;
  if (descriptor < 0 || fstat(descriptor, &status) != 0)
    fail(descriptor, std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    fail(descriptor, "not a regular file");
  size = static_cast<size_t>(status.st_size);
  if (size != 0) {
    void *address = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (address == MAP_FAILED)
      fail(descriptor, std::strerror(errno));
    data = static_cast<const std::byte *>(address);
  }
  close(descriptor);
}

MappedFile::~MappedFile() {
  if (data)
    munmap(const_cast<std::byte *>(data), size);
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : name(std::move(other.name)), data(std::exchange(other.data, nullptr)), size(std::exchange(other.size, 0)) {}

} // namespace dtc
