// A stand-in for a GPU: runs kernels on the processor, with a fiber for each thread and real barriers and shuffles, and
// reports what a real GPU would not: accesses outside of the given buffers or less aligned than the code states; two
// threads that write one element of a buffer, or one that reads what another writes; two threads that access one word
// of workgroup memory without a barrier between, or words of it that are read before they are written; rows of matrices
// that share a bank of it; copies to it that are read before they were waited for, which is when they are made; threads
// that others wait for in vain. For tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace dtc::test {

/// The code of one thread of a kernel. `arguments` are 64 bits each: addresses, then scalars.
using ThreadFunction = void (*)(const uint64_t *arguments);

/// The functions that threads call.
struct Hooks {
  int64_t (*thread)();
  int64_t (*block)();
  void (*barrier)();
  uint64_t (*shuffle)(uint64_t value, int32_t distance);
  /// What a warp's matrix units do with the ten words of a thread (GpuMmaTiles.cpp): a, b and c, which is overwritten.
  void (*mma)(uint32_t *words, int64_t isBf16);
  /// Gives a thread the words of four matrices that a warp loads by the addresses of its threads (gpuLoadMatrices).
  void (*loadMatrices)(int64_t address, uint32_t *words, int64_t isTransposed);
  /// Begins to copy 16 bytes to an address of workgroup memory; waits for all copies that the thread has begun.
  void (*beginCopy)(int64_t to, const void *from);
  void (*waitForCopies)();
  /// 2 to this power, no more exact than the PTX manual promises for ex2.approx.ftz.f32.
  float (*powerOfTwo)(float exponent);
  /// Where the bytes of an address are.
  void *(*access)(const void *address, int64_t bytes, int64_t alignment, int64_t isWrite);
  /// The address of element `index` of workgroup memory `memory`, which has `size` elements of `bytes` bytes.
  void *(*shared)(int64_t memory, int64_t size, int64_t bytes, int64_t index, int64_t isWrite);
  /// The start of that memory, for code that takes its address: not an address of the host.
  int64_t (*addressOfShared)(int64_t memory, int64_t size, int64_t bytes);
};

/// The name under which compiled kernels find the hooks.
inline constexpr const char *HooksSymbol = "gpu_hooks";
/// Suffix of a function's name: an int64_t, how many arguments it takes.
inline constexpr const char *ArgumentsSuffix = "_arguments";

/// A piece of memory that a launch may use.
struct DeviceBuffer {
  std::byte *data = nullptr;
  size_t bytes = 0;
  bool isWritten = false; ///< by the kernel
  bool isInput = false;   ///< writes to it overwrite what other threads may still read
  std::string name;
  std::ptrdiff_t behind = 0; ///< distance from `data` to the bytes, where the host cannot access that
};

class GpuMachine {
public:
  GpuMachine();
  ~GpuMachine();

  Hooks hooks() const;

  /// Whether blocks run from the last to the first, and threads too: results must not depend on it.
  bool backwards = false;

  /// Runs all blocks. Returns the first error; an empty string: none.
  std::string launch(ThreadFunction function, int64_t blocks, int64_t threads, const std::vector<uint64_t> &arguments,
                     const std::vector<DeviceBuffer> &buffers);

private:
  class Block;
  /// The bytes of one buffer that have been written in a launch.
  struct Written {
    size_t buffer;
    int64_t begin, bytes;
  };

  /// Which thread of the launch wrote each byte of a buffer, from 1; 0: none. From calloc, which allocates nothing for
  /// what nobody writes.
  struct Writers {
    std::unique_ptr<uint32_t[], decltype(&std::free)> threads{nullptr, &std::free};
    size_t bytes = 0;
  };

  std::vector<Writers> writers; ///< for each buffer; each launch clears what the last one has written
  std::vector<Written> written;
  std::vector<std::unique_ptr<std::byte[]>> stacks;
};

} // namespace dtc::test
