// The products with weights of one token of GPT-2 124M by dtc_gemm on one thread: how close they come to the rate at
// which the thread can read memory. Each is timed over copies of the weights that caches do not hold, like the layers
// of a model, and next to a probe of that rate, since virtual machines drift.
//
//   gemv [ROWS]     ROWS of activations, 1 by default
//
// Prints lines of: type, product, microseconds, GB/s, GB/s of the probe. bench/gemv.py makes a table of them.
#include "runtime/kernels/cpu/kernels.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <vector>

namespace {

using Floats = float __attribute__((vector_size(64), aligned(4)));

constexpr int64_t room = 512 << 20, perRun = 200 << 20; // bytes, of all weights and of those of one timing

/// CPU seconds of this thread, so that other work on the machine does not count.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Bytes per second of reading in this many streams.
double readRate(const float *memory, int64_t streams) {
  int64_t part = perRun / static_cast<int64_t>(sizeof(float)) / streams;
  Floats sums[4] = {};
  double start = now();
  for (int64_t i = 0; i + 16 <= part; i += 16)
    for (int64_t stream = 0; stream < streams; ++stream) {
      const float *at = memory + stream * part + i;
      __builtin_prefetch(at + 4096 / sizeof(float) / streams);
      sums[stream % 4] += *reinterpret_cast<const Floats *>(at);
    }
  double seconds = now() - start;
  for (Floats &sum : sums)
    asm volatile("" ::"v"(sum));
  return static_cast<double>(part * streams * sizeof(float)) / seconds;
}

/// The best rate of reading.
double probe(const float *memory) {
  double best = 0;
  for (int64_t streams : {1, 2, 4, 8, 16})
    best = std::max(best, readRate(memory, streams));
  return best;
}

struct Product {
  const char *name;
  int64_t depth, columns;
  bool hasWholeColumns; ///< the weight is stored as [columns, depth]

  int64_t bytes(dtc_element type) const { return depth * columns * (type == dtc_f32 ? 4 : 2); }

  void run(int64_t rows, dtc_element type, const float *activations, const std::byte *weight, float *result) const {
    void *buffers[] = {const_cast<float *>(activations), const_cast<std::byte *>(weight), result};
    int64_t scalars[] = {
        1, rows, columns, depth, 0,   hasWholeColumns, depth, hasWholeColumns ? depth : columns, columns, 0, 0,
        0, 0,    1,       type,  type};
    dtc_gemm(buffers, scalars, 0, columns);
  }
};

constexpr Product products[] = {{"attention in", 768, 2304, false},
                                {"attention out", 768, 768, false},
                                {"mlp up", 768, 3072, false},
                                {"mlp down", 3072, 768, false},
                                {"logits", 768, 50257, true}};

/// Seconds of one product: the least of a few rounds over the copies.
double timeOf(const Product &product, int64_t rows, dtc_element type, const float *memory, float *result) {
  int64_t bytes = product.bytes(type), copies = std::max<int64_t>(1, perRun / bytes);
  std::vector<float> activations(rows * product.depth, 0.5f);
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 5; ++round) {
    double start = now();
    for (int64_t i = 0; i < copies; ++i)
      product.run(rows, type, activations.data(), reinterpret_cast<const std::byte *>(memory) + i * bytes, result);
    least = std::min(least, (now() - start) / static_cast<double>(copies));
  }
  return least;
}

} // namespace

int main(int argc, char **argv) {
  int64_t rows = argc > 1 ? std::atoll(argv[1]) : 1;
  if (rows <= 0) {
    std::fprintf(stderr, "gemv: rows must be a positive number, e.g. gemv 1\n");
    return 2;
  }
  void *address = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    std::perror("gemv: cannot get memory");
    return 1;
  }
  madvise(address, room, MADV_HUGEPAGE); // as the runtime's arena
  float *memory = static_cast<float *>(address);
  for (int64_t i = 0; i < room / static_cast<int64_t>(sizeof(float)); ++i)
    memory[i] = static_cast<float>(i % 251) * 1e-3f;
  std::vector<float> result(rows * 50257);
  for (dtc_element type : {dtc_f32, dtc_bf16})
    for (const Product &product : products) {
      double rate = probe(memory), seconds = timeOf(product, rows, type, memory, result.data());
      rate = std::max(rate, probe(memory));
      std::printf("%s,%s,%.1f,%.1f,%.1f\n", type == dtc_f32 ? "f32" : "bf16", product.name, seconds * 1e6,
                  static_cast<double>(product.bytes(type)) / seconds * 1e-9, rate * 1e-9);
      std::fflush(stdout);
    }
  return 0;
}
