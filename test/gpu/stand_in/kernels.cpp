// Handwritten kernels as the stand-in loads them, for tests of the device alone.
#include "test/gpu/machine.h"

#define DTC_KERNEL(name, count)                                                                                        \
  [[gnu::visibility("default")]] extern const int64_t name##_arguments = count;                                        \
  void name(const uint64_t *arguments)

extern "C" {

dtc::test::Hooks gpu_hooks;

static int64_t &at(uint64_t buffer, int64_t index, bool isWrite) {
  const auto *address = reinterpret_cast<const int64_t *>(buffer) + index;
  return *static_cast<int64_t *>(gpu_hooks.access(address, 8, 8, isWrite));
}

/// Values, what is added; grid, threads.
DTC_KERNEL(add_one, 4) {
  auto first = gpu_hooks.block() * 32 + gpu_hooks.thread();
  for (auto i = first; i < int64_t(arguments[2]); i += int64_t(arguments[3]))
    at(arguments[0], i, true) = at(arguments[0], i, false) + int64_t(arguments[1]);
}

/// Adds values to others. What is added, sums; grid, threads.
DTC_KERNEL(accumulate, 4) {
  auto first = gpu_hooks.block() * 32 + gpu_hooks.thread();
  for (auto i = first; i < int64_t(arguments[2]); i += int64_t(arguments[3])) {
    int64_t added = at(arguments[0], i, false), sum = at(arguments[1], i, false);
    at(arguments[1], i, true) = sum + added;
  }
}

/// Adds the number of threads, plus what is added, to every element. Values, what is added; grid, threads.
DTC_KERNEL(threads, 4) {
  auto first = gpu_hooks.block() * 256 + gpu_hooks.thread();
  for (auto i = first; i < int64_t(arguments[2]); i += int64_t(arguments[3]))
    at(arguments[0], i, true) = int64_t(arguments[1] + arguments[3]);
}

/// In two passes: each thread's number squared into scratch, and their sum to the output. Output, scratch, how many.
DTC_KERNEL(squares, 3) {
  auto i = gpu_hooks.block() * 32 + gpu_hooks.thread();
  if (i < int64_t(arguments[2]))
    at(arguments[1], i, true) = i * i;
}
DTC_KERNEL(sum, 3) {
  if (gpu_hooks.block() != 0 || gpu_hooks.thread() != 0)
    return;
  int64_t sum = 0;
  for (int64_t i = 0; i < int64_t(arguments[2]); ++i)
    sum += at(arguments[1], i, false);
  at(arguments[0], 0, true) = sum;
}

/// Writes a number over what it would attend to. Eight buffers, 31 scalars; grid, threads.
DTC_KERNEL(attend, 41) {
  if (gpu_hooks.block() == 0 && gpu_hooks.thread() == 0)
    at(arguments[6], 0, true) = 77;
}

/// Adds a bias of f32 to a product of one batch. A, B, bias, result; the 17 scalars of a product with an epilogue;
/// grid, threads.
DTC_KERNEL(dtc_cuda_product$bias, 23) {
  if (gpu_hooks.block() != 0 || gpu_hooks.thread() != 0)
    return;
  auto number = [&](uint64_t buffer, int64_t index, bool isWrite) -> float & {
    const auto *address = reinterpret_cast<const float *>(buffer) + index;
    return *static_cast<float *>(gpu_hooks.access(address, 4, 4, isWrite));
  };
  auto m = int64_t(arguments[5]), n = int64_t(arguments[6]);
  for (int64_t i = 0; i < m * n; ++i) {
    float sum = number(arguments[3], i, false) + number(arguments[2], i % n, false);
    number(arguments[3], i, true) = sum;
  }
}

/// Its first thread writes past the end of its buffer: buffer, bytes.
DTC_KERNEL(stray, 2) {
  if (gpu_hooks.thread() == 0)
    at(arguments[0] + arguments[1], 0, true) = 1;
}
}
