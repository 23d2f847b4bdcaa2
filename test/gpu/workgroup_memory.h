// Workgroup memory of a GPU's block, which records who accesses each word, and reports what a real one would not: words
// that are read before they are written, two threads that access one word without a barrier between, copies that nobody
// has waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dtc::test {

class WorkgroupMemory {
public:
  static constexpr int64_t pieceBytes = 16; ///< of a matrix's row, and of a copy

  /// All threads have met: what they accessed before they may access again.
  void passBarrier() { ++barriers; }

  /// Where memory `number` begins, which has `size` elements of `bytes` bytes.
  int64_t addressOf(int64_t number, int64_t size, int64_t bytes) {
    memoryOf(number, size, bytes);
    return (number + 1) * memorySpan;
  }

  /// Notes that `who`, a thread or a warp, reads or writes an element of that memory: returns its address, or what is
  /// wrong with the access.
  std::byte *touchElement(int64_t number, int64_t size, int64_t bytes, int64_t index, bool isWrite, int64_t who,
                          std::string &fault);
  /// The same of 16 bytes at an address.
  std::byte *touchPiece(int64_t address, bool isWrite, int64_t who, std::string &fault);

  /// Whether a copy is on its way to the 16 bytes at an address.
  void setOnItsWay(int64_t address, bool isOnItsWay);

private:
  /// Who accessed a word of workgroup memory last, and after how many barriers.
  struct Word {
    int64_t writer = -1, writtenAt = -1, reader = -1, readAt = -1;
    bool hasReaders = false; ///< several since the last barrier
    bool isOnItsWay = false; ///< by a copy
  };
  struct Memory {
    int64_t number = 0, wordBytes = 0;
    std::vector<std::byte> bytes;
    std::vector<Word> words;
  };
  /// From the address of one memory to that of the next.
  static constexpr int64_t memorySpan = int64_t(1) << 32;

  Memory &memoryOf(int64_t number, int64_t size, int64_t bytes);
  std::string touch(Memory &memory, int64_t index, bool isWrite, int64_t who);

  std::map<int64_t, Memory> memories;
  Memory *lastUsed = nullptr; ///< of these
  int64_t barriers = 0;
};

} // namespace dtc::test
