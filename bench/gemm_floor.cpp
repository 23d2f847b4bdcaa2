// The floor of a GPT-2 124M training step: its products with weights by dtc_gemm, then AdamW, and nothing else, on one
// thread. Each product is timed next to a probe of the machine (multiply-adds from registers), since virtual machines
// drift by tens of percent from minute to minute.
//
//   gemm_floor [f32|bf16] [ROWS...]     ROWS = batch * tokens of the step, e.g. 256 1024 (the default)
//
// bf16: operands and results of products are bf16, except gradients of weights, which are f32 as in a step that
// computes in bf16.
#include "runtime/kernels/cpu/kernels.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

namespace {

using Floats = float __attribute__((vector_size(64)));

/// CPU seconds of this thread, so that other work on the machine does not count.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Multiply-adds per second that this core reaches from registers, in GFLOP/s, measured over about a millisecond.
double probe() {
  Floats sums[10] = {};
  constexpr int rounds = 1 << 19;
  double start = now();
  for (int i = 0; i < rounds; ++i)
    for (Floats &sum : sums) {
      sum = sum * 0.999f + 1.0f;
      asm volatile("" : "+v"(sum));
    }
  return 10.0 * 16 * 2 * rounds / (now() - start) * 1e-9;
}

/// Memory as in the runtime's arena: zeroed, on huge pages where possible.
class Arena {
public:
  explicit Arena(int64_t count) : size(count * sizeof(float)) {
    address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) {
      std::perror("gemm_floor: cannot get memory");
      std::exit(1);
    }
    madvise(address, size, MADV_HUGEPAGE);
  }
  ~Arena() { munmap(address, size); }
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  float *data() { return static_cast<float *>(address); }

private:
  size_t size;
  void *address;
};

/// One product: C[m, n] = op(A) op(B).
struct Product {
  std::string name;
  int64_t m, n, k;
  bool transposeA, transposeB;
  int times; // per step
  dtc_element operands;

  double flops() const { return 2.0 * m * n * k; }
  int64_t bytesOfB() const { return k * n * (operands == dtc_f32 ? 4 : 2); }

  void run(void *a, void *b, void *c) const {
    void *buffers[] = {a, b, c};
    int64_t scalars[] = {1, m, n, k, transposeA, transposeB, transposeA ? m : k, transposeB ? k : n,
                         n, 0, 0, 0, 0,          0,          operands,           transposeA ? dtc_f32 : operands};
    dtc_gemm(buffers, scalars, 0, m);
  }
};

constexpr int64_t width = 768, vocabulary = 50257, layers = 12, parameters = 124439808;

/// Forward, input gradient and weight gradient of y[rows, n] = x[rows, k] w[k, n], and of the tied logits.
std::vector<Product> productsOf(int64_t rows, dtc_element type) {
  std::vector<Product> all;
  auto layer = [&](const std::string &name, int64_t k, int64_t n) {
    all.push_back({name + " forward", rows, n, k, false, false, layers, type});
    all.push_back({name + " dx", rows, k, n, false, true, layers, type});
    all.push_back({name + " dw", k, n, rows, true, false, layers, type});
  };
  layer("attention in", width, 3 * width);
  layer("attention out", width, width);
  layer("mlp up", width, 4 * width);
  layer("mlp down", 4 * width, width);
  all.push_back({"logits forward", rows, vocabulary, width, false, true, 1, type});
  all.push_back({"logits dx", rows, width, vocabulary, false, false, 1, type});
  all.push_back({"logits dw", vocabulary, width, rows, true, false, 1, type});
  return all;
}

/// Least time of a few runs, over different weights each time where they fit, as in a step: operands come from memory.
double timeOf(const Product &p, std::byte *a, std::byte *b, std::byte *c, int64_t room) {
  double least = std::numeric_limits<double>::infinity();
  int64_t weights = p.bytesOfB(), copies = std::max<int64_t>(1, std::min<int64_t>(p.times, room / weights));
  for (int i = 0; i < (p.flops() > 1e10 ? 3 : 8); ++i) {
    double start = now();
    p.run(a, b + i % copies * weights, c);
    least = std::min(least, now() - start);
  }
  return least;
}

/// In floats; twice the size of the logits' weights, so that layers have different weights.
int64_t largestOperand(int64_t rows) { return std::max(rows * vocabulary, 2 * vocabulary * width); }

/// AdamW over all parameters: weight, gradient, two moments.
void adamw(float *__restrict weight, const float *__restrict gradient, float *__restrict first,
           float *__restrict second, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float g = gradient[i];
    float m = first[i] = 0.9f * first[i] + 0.1f * g;
    float v = second[i] = 0.999f * second[i] + 0.001f * g * g;
    weight[i] -= 1e-4f * (m / (__builtin_sqrtf(v) + 1e-8f) + 0.1f * weight[i]);
  }
}

void benchmark(int64_t rows, float *memory, dtc_element type) {
  int64_t largest = largestOperand(rows) * static_cast<int64_t>(sizeof(float));
  std::byte *a = reinterpret_cast<std::byte *>(memory), *b = a + largest, *c = b + largest;
  std::printf("%-24s %6s %6s %6s %10s %10s %8s\n", "product", "M", "N", "K", "ms", "GFLOP/s", "of probe");
  double total = 0, flops = 0;
  for (const Product &p : productsOf(rows, type)) {
    double peak = probe(), seconds = timeOf(p, a, b, c, largest);
    peak = std::max(peak, probe());
    std::printf("%-24s %6ld %6ld %6ld %10.2f %10.1f %7.0f%%\n", p.name.c_str(), p.m, p.n, p.k, seconds * 1e3,
                p.flops() / seconds * 1e-9, 100 * p.flops() / seconds * 1e-9 / peak);
    total += seconds * p.times;
    flops += p.flops() * p.times;
  }
  double update = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    double start = now();
    adamw(memory, memory + parameters, memory + 2 * parameters, memory + 3 * parameters, parameters);
    update = std::min(update, now() - start);
  }
  std::printf("%ld rows: products %.3f s (%.0f GFLOP/s), AdamW %.3f s (%.1f GB/s), floor %.3f s\n\n", rows, total,
              flops / total * 1e-9, update, 7.0 * 4 * parameters / update * 1e-9, total + update);
}

} // namespace

int main(int argc, char **argv) {
  bool isNarrow = argc > 1 && std::string(argv[1]) == "bf16",
       isTyped = isNarrow || (argc > 1 && std::string(argv[1]) == "f32");
  std::vector<int64_t> rows;
  for (int i = isTyped ? 2 : 1; i < argc; ++i)
    rows.push_back(std::atoll(argv[i]));
  if (rows.empty())
    rows = {256, 1024};
  for (int64_t count : rows)
    if (count <= 0) {
      std::fprintf(stderr, "gemm_floor: rows must be positive numbers, e.g. gemm_floor 256 1024\n");
      return 2;
    }
  int64_t most = *std::max_element(rows.begin(), rows.end());
  int64_t size = std::max(4 * parameters, 3 * largestOperand(most));
  Arena arena(size);
  for (int64_t i = 0; i < size; ++i)
    arena.data()[i] = static_cast<float>(i % 251) * 1e-3f;
  for (int64_t count : rows)
    benchmark(count, arena.data(), isNarrow ? dtc_bf16 : dtc_f32);
  return 0;
}
