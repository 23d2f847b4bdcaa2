#include "runtime/device/arena.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>

namespace dtc {

static uint64_t roundUp(uint64_t bytes) { return (bytes + Arena::Alignment - 1) / Arena::Alignment * Arena::Alignment; }

[[noreturn]] static void throwNoMemory(const std::string &what, uint64_t bytes, int number) {
  throw Error("cannot get " + std::to_string(bytes >> 20) + " MiB for " + what + ": " + std::strerror(number) +
              "; use more ranks, a smaller batch or a machine with more memory");
}

/// Reserves `bytes` of address space, aligned to Arena::Alignment; null if there is none. It cannot be accessed yet.
static std::byte *reserveAddresses(uint64_t bytes) {
  uint64_t wide = bytes + Arena::Alignment;
  void *address = mmap(nullptr, wide, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    return nullptr;
  auto *begin = static_cast<std::byte *>(address);
  uint64_t head = -reinterpret_cast<uintptr_t>(address) % Arena::Alignment;
  if (head > 0)
    munmap(begin, head);
  if (uint64_t tail = wide - head - bytes)
    munmap(begin + head + bytes, tail);
  return begin + head;
}

Arena::Arena(uint64_t bytes, uint64_t sharedBegin)
    : Memory(bytes, sharedBegin), reserved(roundUp(std::max<uint64_t>(bytes, 1))) {
  if (sharedBegin > bytes || bytes > UINT64_MAX / 4)
    throw Error(ExitCode::BadInput, "an arena of " + std::to_string(bytes) + " bytes cannot be shared from byte " +
                                        std::to_string(sharedBegin) + "; the program file is damaged");
  memory = reserveAddresses(reserved);
  if (!memory)
    throwNoMemory("the arena", bytes, errno);
  if (mmap(memory, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
    int number = errno;
    munmap(memory, reserved);
    throwNoMemory("the arena", bytes, number);
  }
  // Only advice: without huge pages everything works, but some tens of percent slower.
  madvise(memory, reserved, MADV_HUGEPAGE);
}

Arena::~Arena() { munmap(memory, reserved); }

void Arena::mapShared(int file, uint64_t offset) {
  if (mappedBytes() == 0)
    return;
  std::byte *begin = memory + mappedBegin();
  if (mmap(begin, mappedBytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(offset)) ==
      MAP_FAILED)
    throwNoMemory("the shared part of the arena", mappedBytes(), errno);
  madvise(begin, mappedBytes(), MADV_HUGEPAGE);
  // Populating the pages with madvise reports a shortage, whereas a store would raise SIGBUS. Allocating the file's
  // range reports it, too, but uses small pages, so that is only for systems older than this advice (Linux 5.14).
  if (madvise(begin, mappedBytes(), MADV_POPULATE_WRITE) == 0)
    return;
  int number = errno;
  if (number == EINVAL)
    number = posix_fallocate(file, static_cast<off_t>(offset), static_cast<off_t>(mappedBytes()));
  if (number != 0)
    throwNoMemory("the shared part of the arena", mappedBytes(), number == EFAULT ? ENOSPC : number);
}

std::byte *mapPeer(int file, uint64_t offset, uint64_t mappedBegin, uint64_t mappedBytes) {
  if (mappedBytes == 0)
    return nullptr;
  std::byte *address = reserveAddresses(mappedBytes);
  if (!address)
    throwNoMemory("the view of a peer's arena", mappedBytes, errno);
  if (mmap(address, mappedBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(offset)) ==
      MAP_FAILED) {
    int number = errno;
    munmap(address, mappedBytes);
    throwNoMemory("the view of a peer's arena", mappedBytes, number);
  }
  madvise(address, mappedBytes, MADV_HUGEPAGE);
  return address - mappedBegin;
}

void unmapPeer(std::byte *base, uint64_t mappedBegin, uint64_t mappedBytes) noexcept {
  if (mappedBytes != 0)
    munmap(base + mappedBegin, mappedBytes);
}

} // namespace dtc
