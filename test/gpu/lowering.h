// GPU kernels as code of this machine: what one thread does, with a call wherever it meets others or memory.
#pragma once

#include "dialect/IR/Ops.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"

#include <map>
#include <memory>
#include <string>

namespace dtc::test {

/// What one thread of a kernel runs. `arguments` are 64 bits each: addresses, then scalars.
using ThreadFunction = void (*)(const uint64_t *arguments);

/// The functions that threads call; machine.cpp has them.
struct Hooks {
  int64_t (*thread)();
  int64_t (*block)();
  void (*barrier)();
  uint64_t (*shuffle)(uint64_t value, int32_t distance);
  void (*access)(const void *address, int64_t bytes, int64_t alignment, int64_t isWrite);
  /// The address of element `index` of workgroup memory `memory`, which has `size` elements of `bytes` bytes.
  void *(*shared)(int64_t memory, int64_t size, int64_t bytes, int64_t index, int64_t isWrite);
};

class GpuCodeOfThisMachine {
public:
  /// The module of emitGpuKernels, within a module of its own; both are used up.
  GpuCodeOfThisMachine(mlir::gpu::GPUModuleOp module, const Hooks &hooks);

  ThreadFunction find(const std::string &name) const; ///< null where there is none
  std::string error;                                  ///< empty: all is well

private:
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace dtc::test
