#include "test/gpu/machine.h"
#include "test/gpu/workgroup_memory.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

/// Saves in `from` the caller's position, and continues where `to` was saved: the purpose of swapcontext, which makes
/// two system calls each time. A point is a stack pointer; the registers that a call preserves are on the stack.
extern "C" void gpu_machine_switch(void **from, void *to);
asm(R"(
.text
.type gpu_machine_switch, @function
gpu_machine_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size gpu_machine_switch, . - gpu_machine_switch
)");

namespace dtc::test {

static constexpr size_t stackBytes = size_t(64) << 10;
static constexpr int64_t warp = 32;
static constexpr int64_t pieceBytes = WorkgroupMemory::pieceBytes;

/// The threads of one block, and what they share. One block at a time runs in this process: the hooks find it in
/// `running`.
class GpuMachine::Block {
public:
  Block(GpuMachine &machine, ThreadFunction function, int64_t number, int64_t threads,
        const std::vector<uint64_t> &arguments, const std::vector<DeviceBuffer> &buffers)
      : number(number), function(function), arguments(arguments), buffers(buffers), fibers(threads),
        writers(machine.writers), written(machine.written), backwards(machine.backwards) {
    for (int64_t i = 0; i < threads; ++i)
      fibers[i].stack = machine.stacks[i].get();
  }

  std::string run();

  // What threads call.
  void barrier() { wait(State::Barrier); }
  uint64_t shuffle(uint64_t value, int32_t distance) {
    fibers[current].value = value;
    fibers[current].distance = distance;
    wait(State::Shuffle);
    return fibers[current].value;
  }
  void mma(uint32_t *words, bool isBf16) {
    fibers[current].words = words;
    fibers[current].value = isBf16;
    wait(State::Mma);
  }
  void loadMatrices(int64_t address, uint32_t *words, bool isTransposed) {
    fibers[current].address = address;
    fibers[current].words = words;
    fibers[current].value = isTransposed;
    wait(State::LoadMatrices);
  }
  void beginCopy(int64_t to, const void *from);
  void waitForCopies();
  void *access(const void *address, int64_t bytes, int64_t alignment, bool isWrite);
  void *shared(int64_t number, int64_t size, int64_t bytes, int64_t index, bool isWrite);
  int64_t addressOfShared(int64_t number, int64_t size, int64_t bytes) { return memory.addressOf(number, size, bytes); }

  const int64_t number;
  int64_t current = 0;
  static Block *running;

private:
  enum class State { Ready, Barrier, Shuffle, Mma, LoadMatrices, Ended };
  struct Copy {
    int64_t to = 0;
    const void *from = nullptr;
  };
  struct Fiber {
    void *point = nullptr; ///< where it continues
    std::byte *stack = nullptr;
    State state = State::Ready;
    uint64_t value = 0;
    uint32_t *words = nullptr; ///< of fragments
    int64_t address = 0;       ///< of a matrix's row
    int32_t distance = 0;
    std::vector<Copy> copies; ///< that it has begun
  };

  static void enter() {
    running->function(running->arguments.data());
    if (!running->fibers[running->current].copies.empty())
      running->fail("ends without having waited for its copies");
    running->wait(State::Ended);
  }
  void wait(State state) {
    Fiber &fiber = fibers[current];
    fiber.state = state;
    gpu_machine_switch(&fiber.point, scheduler);
  }
  /// Ends the whole block: no thread runs any further.
  void fail(const std::string &what) {
    error = "thread " + std::to_string(current) + " of block " + std::to_string(number) + " " + what;
    gpu_machine_switch(&fibers[current].point, scheduler);
  }
  void checkWriter(const DeviceBuffer &buffer, int64_t begin, int64_t bytes, bool isWrite);
  bool runReady();
  bool finishShuffle(int64_t first);
  bool finishMma(int64_t first);
  bool finishLoadMatrices(int64_t first);
  std::string stuck() const;

  ThreadFunction function;
  const std::vector<uint64_t> &arguments;
  const std::vector<DeviceBuffer> &buffers;
  std::vector<Fiber> fibers;
  void *scheduler = nullptr;
  WorkgroupMemory memory;
  std::vector<Writers> &writers;
  std::vector<Written> &written;
  bool backwards;
  std::string error;
};

GpuMachine::Block *GpuMachine::Block::running = nullptr;

std::string GpuMachine::Block::run() {
  running = this;
  for (Fiber &fiber : fibers) {
    // As if `enter` had been called, and stopped before its first instruction: six registers, and the return address.
    auto *top = reinterpret_cast<void **>(fiber.stack + stackBytes);
    std::fill(top - 8, top, nullptr);
    top[-2] = reinterpret_cast<void *>(enter);
    fiber.point = top - 8;
  }
  auto all = [&](State state) {
    return std::all_of(fibers.begin(), fibers.end(), [&](const Fiber &fiber) { return fiber.state == state; });
  };
  while (error.empty() && !all(State::Ended)) {
    bool moved = runReady();
    for (int64_t first = 0; first < int64_t(fibers.size()) && error.empty(); first += warp)
      moved |= finishShuffle(first) || finishMma(first) || finishLoadMatrices(first);
    if (error.empty() && all(State::Barrier)) {
      for (Fiber &fiber : fibers)
        fiber.state = State::Ready;
      memory.passBarrier();
      moved = true;
    }
    if (!moved && error.empty())
      error = stuck();
  }
  running = nullptr;
  return error;
}

bool GpuMachine::Block::runReady() {
  bool moved = false;
  int64_t count = fibers.size();
  for (int64_t i = 0; i < count && error.empty(); ++i) {
    current = backwards ? count - 1 - i : i;
    if (fibers[current].state != State::Ready)
      continue;
    gpu_machine_switch(&scheduler, fibers[current].point);
    moved = true;
  }
  return moved;
}

/// Values are exchanged when all threads of a warp have arrived.
bool GpuMachine::Block::finishShuffle(int64_t first) {
  for (int64_t lane = 0; lane < warp; ++lane)
    if (fibers[first + lane].state != State::Shuffle)
      return false;
  uint64_t values[warp];
  for (int64_t lane = 0; lane < warp; ++lane) {
    values[lane] = fibers[first + lane].value;
    if (fibers[first + lane].distance != fibers[first].distance) {
      current = first + lane;
      error = "thread " + std::to_string(current) + " shuffles over another distance than its warp";
      return false;
    }
  }
  for (int64_t lane = 0; lane < warp; ++lane) {
    fibers[first + lane].value = values[(lane ^ fibers[first].distance) % warp];
    fibers[first + lane].state = State::Ready;
  }
  return true;
}

static float fromHalf(uint16_t bits, bool isBf16) {
  return isBf16 ? std::bit_cast<float>(uint32_t(bits) << 16) : float(std::bit_cast<_Float16>(bits));
}

/// mma.m16n8k16 of the PTX manual, when all threads of a warp have arrived: which thread has which elements is
/// implemented once more here, by rows and columns.
bool GpuMachine::Block::finishMma(int64_t first) {
  for (int64_t lane = 0; lane < warp; ++lane)
    if (fibers[first + lane].state != State::Mma)
      return false;
  float a[16][16], b[16][8], c[16][8];
  bool isBf16 = fibers[first].value;
  for (int lane = 0; lane < warp; ++lane) {
    const uint32_t *words = fibers[first + lane].words;
    int group = lane >> 2, inGroup = lane & 3;
    for (int i = 0; i < 8; ++i) { // elements of A, two a word
      int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8, column = inGroup * 2 + (i & 1) + (i >= 4 ? 8 : 0);
      a[row][column] = fromHalf(uint16_t(words[i / 2] >> i % 2 * 16), isBf16);
    }
    for (int i = 0; i < 4; ++i) { // of B
      int row = inGroup * 2 + (i & 1) + (i >= 2 ? 8 : 0);
      b[row][group] = fromHalf(uint16_t(words[4 + i / 2] >> i % 2 * 16), isBf16);
    }
    for (int i = 0; i < 4; ++i) // of C
      c[i < 2 ? group : group + 8][inGroup * 2 + (i & 1)] = std::bit_cast<float>(words[6 + i]);
  }
  for (int lane = 0; lane < warp; ++lane) {
    for (int i = 0; i < 4; ++i) {
      int row = i < 2 ? lane >> 2 : (lane >> 2) + 8, column = (lane & 3) * 2 + (i & 1);
      double sum = c[row][column];
      for (int k = 0; k < 16; ++k)
        sum += double(a[row][k]) * double(b[k][column]);
      fibers[first + lane].words[6 + i] = std::bit_cast<uint32_t>(float(sum));
    }
    fibers[first + lane].state = State::Ready;
  }
  return true;
}

/// ldmatrix.x4 of the PTX manual, when all threads of a warp have arrived: eight threads each name the rows of a
/// matrix, of eight elements, and thread 4i + j of the warp gets elements 2j and 2j + 1 of its row i, or of its column
/// i.
bool GpuMachine::Block::finishLoadMatrices(int64_t first) {
  constexpr int64_t side = 8, banks = 8; // rows of a matrix; pieces of 16 bytes in all banks
  for (int64_t lane = 0; lane < warp; ++lane)
    if (fibers[first + lane].state != State::LoadMatrices)
      return false;
  int64_t whole = int64_t(fibers.size()) + first / warp; // the warp as one: no thread has read it alone
  for (int64_t matrix = 0; matrix < 4; ++matrix) {
    uint16_t elements[side][side];
    std::array<bool, banks> taken = {};
    for (int64_t row = 0; row < side; ++row) {
      current = first + matrix * side + row;
      int64_t address = fibers[current].address;
      std::string fault;
      const std::byte *bytes = memory.touchPiece(address, /*isWrite=*/false, whole, fault);
      if (fault.empty() && std::exchange(taken[address / pieceBytes % banks], true))
        fault = "names a row of a matrix in the banks of another";
      if (!fault.empty()) {
        error = "thread " + std::to_string(current) + " of block " + std::to_string(number) + " " + fault;
        return false;
      }
      std::memcpy(elements[row], bytes, sizeof elements[row]);
    }
    for (int64_t lane = 0; lane < warp; ++lane) {
      int64_t i = lane / 4, j = lane % 4 * 2;
      bool isTransposed = fibers[first + lane].value;
      uint32_t low = isTransposed ? elements[j][i] : elements[i][j];
      uint32_t high = isTransposed ? elements[j + 1][i] : elements[i][j + 1];
      fibers[first + lane].words[matrix] = low | high << 16;
    }
  }
  for (int64_t lane = 0; lane < warp; ++lane)
    fibers[first + lane].state = State::Ready;
  return true;
}

/// cp.async of the PTX manual, as late as it may be.
void GpuMachine::Block::beginCopy(int64_t to, const void *from) {
  std::string fault;
  memory.touchPiece(to, /*isWrite=*/true, current, fault);
  if (!fault.empty())
    fail(fault);
  access(from, pieceBytes, pieceBytes, /*isWrite=*/false);
  memory.setOnItsWay(to, true);
  fibers[current].copies.push_back({to, from});
}

void GpuMachine::Block::waitForCopies() {
  for (const Copy &copy : std::exchange(fibers[current].copies, {})) {
    memory.setOnItsWay(copy.to, false);
    std::string fault;
    std::byte *to = memory.touchPiece(copy.to, /*isWrite=*/true, current, fault);
    if (!fault.empty())
      fail(fault);
    std::memcpy(to, access(copy.from, pieceBytes, pieceBytes, /*isWrite=*/false), pieceBytes);
  }
}

std::string GpuMachine::Block::stuck() const {
  std::map<State, int64_t> counts;
  for (const Fiber &fiber : fibers)
    ++counts[fiber.state];
  return "block " + std::to_string(number) + " is stuck: " + std::to_string(counts[State::Barrier]) +
         " threads wait at a barrier, " + std::to_string(counts[State::Shuffle]) + " in a shuffle, " +
         (counts[State::Mma] ? std::to_string(counts[State::Mma]) + " at a product of fragments, " : std::string()) +
         (counts[State::LoadMatrices] ? std::to_string(counts[State::LoadMatrices]) + " at matrices, "
                                      : std::string()) +
         std::to_string(counts[State::Ended]) + " have ended";
}

void *GpuMachine::Block::access(const void *address, int64_t bytes, int64_t alignment, bool isWrite) {
  const char *verb = isWrite ? "writes " : "reads ";
  auto *begin = static_cast<const std::byte *>(address);
  if (reinterpret_cast<uintptr_t>(address) % alignment != 0)
    fail(verb + std::to_string(bytes) + " bytes at an address that is no multiple of " + std::to_string(alignment));
  const DeviceBuffer *touched = nullptr;
  for (const DeviceBuffer &buffer : buffers) {
    if (begin < buffer.data || begin + bytes > buffer.data + buffer.bytes)
      continue;
    touched = &buffer;
    if (buffer.isWritten && (isWrite || !buffer.isInput))
      checkWriter(buffer, begin - buffer.data, bytes, isWrite);
    if (!isWrite || buffer.isWritten)
      return const_cast<std::byte *>(begin) + buffer.behind;
  }
  if (touched)
    fail("writes to " + touched->name + ", which is only read");
  for (const DeviceBuffer &buffer : buffers)
    if (begin + bytes > buffer.data && begin <= buffer.data + buffer.bytes)
      fail(verb + std::to_string(bytes) + " bytes at byte " + std::to_string(begin - buffer.data) + " of " +
           buffer.name + ", which has " + std::to_string(buffer.bytes));
  fail(verb + std::to_string(bytes) + " bytes outside of all buffers");
  return nullptr;
}

/// Threads of one launch share no part of a buffer: they exchange data through workgroup memory.
void GpuMachine::Block::checkWriter(const DeviceBuffer &buffer, int64_t begin, int64_t bytes, bool isWrite) {
  auto me = uint32_t(number * int64_t(fibers.size()) + current + 1);
  if (isWrite)
    written.push_back({size_t(&buffer - buffers.data()), begin, bytes});
  for (int64_t at = begin; at < begin + bytes; ++at) {
    uint32_t &writer = writers[&buffer - buffers.data()].threads[at];
    if (writer > 0 && writer != me)
      return fail((isWrite ? "writes byte " : "reads byte ") + std::to_string(at) + " of " + buffer.name +
                  ", which thread " + std::to_string((writer - 1) % fibers.size()) + " of block " +
                  std::to_string((writer - 1) / fibers.size()) + " writes");
    if (isWrite)
      writer = me;
  }
}

void *GpuMachine::Block::shared(int64_t number, int64_t size, int64_t bytes, int64_t index, bool isWrite) {
  std::string fault;
  std::byte *element = memory.touchElement(number, size, bytes, index, isWrite, current, fault);
  if (!fault.empty())
    fail(fault);
  return element;
}

/// Its relative error is up to 2^-22, and subnormal results are zero.
static float powerOfTwo(float exponent) {
  if (std::fpclassify(exponent) == FP_SUBNORMAL)
    exponent = 0;
  auto result = static_cast<float>(std::exp2(static_cast<double>(exponent)));
  if (!std::isnormal(result))
    return std::fpclassify(result) == FP_SUBNORMAL ? 0 : result;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(result) & ~uint32_t(1));
}

GpuMachine::GpuMachine() = default;
GpuMachine::~GpuMachine() = default;

Hooks GpuMachine::hooks() const {
  Hooks hooks;
  hooks.thread = [] { return Block::running->current; };
  hooks.block = [] { return Block::running->number; };
  hooks.barrier = [] { Block::running->barrier(); };
  hooks.shuffle = [](uint64_t value, int32_t distance) { return Block::running->shuffle(value, distance); };
  hooks.mma = [](uint32_t *words, int64_t isBf16) { Block::running->mma(words, isBf16 != 0); };
  hooks.loadMatrices = [](int64_t address, uint32_t *words, int64_t isTransposed) {
    Block::running->loadMatrices(address, words, isTransposed != 0);
  };
  hooks.beginCopy = [](int64_t to, const void *from) { Block::running->beginCopy(to, from); };
  hooks.waitForCopies = [] { Block::running->waitForCopies(); };
  hooks.powerOfTwo = powerOfTwo;
  hooks.access = [](const void *address, int64_t bytes, int64_t alignment, int64_t isWrite) {
    return Block::running->access(address, bytes, alignment, isWrite);
  };
  hooks.shared = [](int64_t memory, int64_t size, int64_t bytes, int64_t index, int64_t isWrite) {
    return Block::running->shared(memory, size, bytes, index, isWrite);
  };
  hooks.addressOfShared = [](int64_t memory, int64_t size, int64_t bytes) {
    return Block::running->addressOfShared(memory, size, bytes);
  };
  return hooks;
}

std::string GpuMachine::launch(ThreadFunction function, int64_t blocks, int64_t threads,
                               const std::vector<uint64_t> &arguments, const std::vector<DeviceBuffer> &buffers) {
  if (blocks * threads > std::numeric_limits<uint32_t>::max() - 1)
    return "there are more threads than can be told apart";
  if (threads % warp != 0)
    return "a block of " + std::to_string(threads) + " threads is no number of warps";
  while (int64_t(stacks.size()) < threads)
    stacks.push_back(std::make_unique_for_overwrite<std::byte[]>(stackBytes));
  for (const Written &each : written)
    std::fill_n(writers[each.buffer].threads.get() + each.begin, each.bytes, 0);
  written.clear();
  writers.resize(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i)
    if (size_t bytes = buffers[i].isWritten ? buffers[i].bytes : 0; writers[i].bytes != bytes) {
      writers[i].threads.reset(static_cast<uint32_t *>(std::calloc(bytes, sizeof(uint32_t))));
      if (!writers[i].threads)
        return "there is too little memory to tell who writes each of " + std::to_string(bytes) + " bytes";
      writers[i].bytes = bytes;
    }
  for (int64_t i = 0; i < blocks; ++i) {
    Block block(*this, function, backwards ? blocks - 1 - i : i, threads, arguments, buffers);
    if (std::string error = block.run(); !error.empty()) {
      stacks.clear(); // calls that never returned have left a sanitizer's marks there
      return error;
    }
  }
  return "";
}

} // namespace dtc::test
