// A GPU that is no GPU: runs kernels on the processor, each thread a fiber, barriers and shuffles real, and reports
// what a real one would not: accesses outside of the buffers that were given or not aligned as the code says, two
// threads that write one element of a buffer, or one that reads what another writes; two threads at one word of
// workgroup memory without a barrier between, words of it that are read before they are written; threads that others
// wait for in vain. For tests.
#pragma once

#include "test/gpu/lowering.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace dtc::test {

/// A piece of memory that a launch may use.
struct DeviceBuffer {
  std::byte *data = nullptr;
  size_t bytes = 0;
  bool isWritten = false; ///< by the kernel
  bool isInput = false;   ///< what is written to it lies over what other threads may still read
  std::string name;
};

class GpuMachine {
public:
  GpuMachine();
  ~GpuMachine();

  Hooks hooks() const;

  /// Whether blocks run from the last to the first, and threads too: results must not depend on it.
  bool backwards = false;

  /// Runs all blocks. Gives what went wrong first; an empty string: nothing.
  std::string launch(ThreadFunction function, int64_t blocks, int64_t threads, const std::vector<uint64_t> &arguments,
                     const std::vector<DeviceBuffer> &buffers);

private:
  class Block;
  /// Which thread of the launch wrote each byte of each buffer.
  std::vector<std::vector<int64_t>> writers;
  std::vector<std::unique_ptr<std::byte[]>> stacks;
};

} // namespace dtc::test
