#include "test/gpu/workgroup_memory.h"

namespace dtc::test {

WorkgroupMemory::Memory &WorkgroupMemory::memoryOf(int64_t number, int64_t size, int64_t bytes) {
  if (lastUsed && lastUsed->number == number) // most threads go on with the same
    return *lastUsed;
  Memory &memory = memories[number];
  lastUsed = &memory;
  if (memory.words.empty()) {
    memory.number = number;
    memory.wordBytes = bytes;
    memory.bytes.resize(size * bytes);
    memory.words.resize(size);
  }
  return memory;
}

/// Says what is wrong with touching a word, if anything.
std::string WorkgroupMemory::touch(Memory &memory, int64_t index, bool isWrite, int64_t who) {
  auto say = [&](const std::string &what) { // most accesses are right, and there are many
    return (isWrite ? "writes word " : "reads word ") + std::to_string(index) + " of workgroup memory " +
           std::to_string(memory.number) + what;
  };
  auto size = int64_t(memory.words.size());
  if (index < 0 || index >= size)
    return say(", which has " + std::to_string(size));
  Word &word = memory.words[index];
  bool writtenNow = word.writtenAt == barriers && word.writer != who;
  bool readNow = word.readAt == barriers && (word.hasReaders || word.reader != who);
  if (writtenNow || (isWrite && readNow))
    return say(", which thread " + std::to_string(writtenNow ? word.writer : word.reader) +
               (writtenNow ? " has written" : " has read") + " with no barrier between");
  if (word.isOnItsWay)
    return say(", which a copy is on its way to");
  if (!isWrite && word.writer < 0)
    return say(", which nobody has written");
  if (isWrite) {
    word.writer = who;
    word.writtenAt = barriers;
  } else {
    word.hasReaders = word.readAt == barriers && (word.hasReaders || word.reader != who);
    word.reader = who;
    word.readAt = barriers;
  }
  return "";
}

std::byte *WorkgroupMemory::touchElement(int64_t number, int64_t size, int64_t bytes, int64_t index, bool isWrite,
                                         int64_t who, std::string &fault) {
  Memory &memory = memoryOf(number, size, bytes);
  fault = touch(memory, index, isWrite, who);
  return fault.empty() ? memory.bytes.data() + index * bytes : nullptr;
}

std::byte *WorkgroupMemory::touchPiece(int64_t address, bool isWrite, int64_t who, std::string &fault) {
  auto found = memories.find(address / memorySpan - 1);
  std::string verb = isWrite ? "writes 16 bytes " : "reads 16 bytes ";
  if (found == memories.end())
    fault = verb + "outside of workgroup memory";
  else if (address % pieceBytes != 0)
    fault = verb + "of workgroup memory at no multiple of 16";
  int64_t offset = address % memorySpan;
  for (int64_t at = offset; at < offset + pieceBytes && fault.empty(); at += found->second.wordBytes)
    fault = touch(found->second, at / found->second.wordBytes, isWrite, who);
  return fault.empty() ? found->second.bytes.data() + offset : nullptr;
}

void WorkgroupMemory::setOnItsWay(int64_t address, bool isOnItsWay) {
  Memory &memory = memories.find(address / memorySpan - 1)->second;
  int64_t offset = address % memorySpan;
  for (int64_t at = offset; at < offset + pieceBytes; at += memory.wordBytes)
    memory.words[at / memory.wordBytes].isOnItsWay = isOnItsWay;
}

} // namespace dtc::test
