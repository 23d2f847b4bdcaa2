#include "tools/verify/Reservation.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace dtc::verify {

Reservation::Reservation(size_t bytes) : bytes(std::max<size_t>(1, bytes)) {
  constexpr int reserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *address = mmap(nullptr, this->bytes, PROT_READ | PROT_WRITE, reserved, -1, 0);
  if (address == MAP_FAILED)
    throw Error("cannot reserve " + std::to_string(bytes) + " bytes to run a kernel in: " + std::strerror(errno));
  begin = static_cast<std::byte *>(address);
}

Reservation::~Reservation() { munmap(begin, bytes); }

} // namespace dtc::verify
