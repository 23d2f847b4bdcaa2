// Algorithms for products that are chosen by time, on the stand-ins for the driver and for cuBLASLt: its heuristic's
// last algorithm is the fastest.
#include "runtime/abi/element_type.h"
#include "runtime/abi/epilogue.h"
#include "runtime/device/cuda/cuda_device.h"
#include "test/gpu/stand_in/stand_in.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

namespace dtc::test {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr int64_t Rows = 3, Columns = 8;
constexpr uint64_t MatrixBytes = 256, Scratch = 4096;

/// A device with products of a column and a row of ones, and memory for their matrices.
class Tuning : public testing::Test {
protected:
  void makeDevice(bool tunes, const char *symbol, const char *standIn = "") {
    setenv("DTC_STAND_IN", standIn, 1);
    abi::Manifest manifest;
    kernel.set_symbol(symbol);
    kernel.set_library(true);
    kernel.set_scratch_bytes(Scratch);
    *manifest.add_kernels() = kernel;
    device.emplace(manifest, "", cuda::LocalRank{}, /*graphs=*/true, cuda::makeLibraryResolver({.tunes = tunes}));
    unsetenv("DTC_STAND_IN");
    memory = device->allocate(3 * MatrixBytes, 3 * MatrixBytes);
    product = device->load(kernel);
    ASSERT_NE(product, 0U);
    write(0, std::vector<float>(Columns, 1));
    write(1, std::vector<float>(Columns, 1));
    write(2, std::vector<float>(Rows * Columns, 10));
  }

  std::byte *matrix(int number) const { return memory->base() + number * MatrixBytes; }
  void write(int number, const std::vector<float> &values) {
    device->write(matrix(number), std::as_bytes(std::span(values)));
  }
  std::vector<float> result() {
    std::vector<float> values(Rows * Columns);
    device->read(std::as_writable_bytes(std::span(values)), matrix(2));
    return values;
  }

  void multiply() {
    std::vector<void *> buffers = {matrix(0), matrix(1), matrix(2)};
    std::vector<int64_t> scalars = {1, Rows, Columns, 1, 0, 0, 1, Columns, Columns, 0, 0, 0, 0, 1, abi::F32, abi::F32};
    if (kernel.symbol() != "dtc_cuda_gemm") { // in place of the accumulator
      buffers.push_back(matrix(2));
      scalars.push_back(static_cast<int64_t>(abi::Epilogue::Accumulate));
    }
    device->launch(product, buffers, scalars, 1, 1);
  }

  /// How many products each algorithm has done since it was asked last.
  std::vector<int> run() {
    device->wait(device->record());
    void *library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD);
    auto *count = reinterpret_cast<dtc_stand_in_products_run_fn *>(dlsym(library, "dtc_stand_in_products_run"));
    dlclose(library);
    std::vector<int> counts;
    for (int algorithm = 0; algorithm < DTC_STAND_IN_ALGORITHMS; ++algorithm) {
      counts.push_back(count(algorithm) - known[algorithm]);
      known[algorithm] += counts.back();
    }
    return counts;
  }

  abi::Kernel kernel;
  std::optional<CudaDevice> device;
  std::unique_ptr<Memory> memory;
  Device::Kernel product = 0;
  int known[DTC_STAND_IN_ALGORITHMS] = {};
};

TEST_F(Tuning, IsNotDoneUnasked) {
  makeDevice(/*tunes=*/false, "dtc_cuda_gemm");
  multiply();
  multiply();
  EXPECT_THAT(run(), ElementsAre(2, 0, 0));
  EXPECT_THAT(result(), Each(1.0f));
}

// One launch that does not count, four that are timed; then the fastest does the work, and that of later launches.
TEST_F(Tuning, KeepsTheFastestOfAShape) {
  makeDevice(true, "dtc_cuda_gemm");
  multiply();
  EXPECT_THAT(run(), ElementsAre(5, 5, 5 + 1));
  multiply();
  EXPECT_THAT(run(), ElementsAre(0, 0, 1));
  EXPECT_THAT(result(), Each(1.0f));
}

// An accumulator in place is what it was before anything was timed.
TEST_F(Tuning, AddsToAnAccumulatorOnce) {
  makeDevice(true, "dtc_cuda_product$accumulate");
  multiply();
  EXPECT_THAT(run(), ElementsAre(5, 5, 5 + 1));
  EXPECT_THAT(result(), Each(11.0f));
  multiply();
  EXPECT_THAT(run(), ElementsAre(0, 0, 1));
  EXPECT_THAT(result(), Each(12.0f));
}

// All memory is taken by the tensors and the kernels' scratch.
TEST_F(Tuning, WithoutMemoryForTheAccumulatorTakesTheFirst) {
  makeDevice(true, "dtc_cuda_product$accumulate", "memory=4864");
  multiply();
  EXPECT_THAT(run(), ElementsAre(1, 0, 0));
  EXPECT_THAT(result(), Each(11.0f));
}

// What is captured is not done, so it has no time.
TEST_F(Tuning, IsNotDoneInAGraph) {
  makeDevice(true, "dtc_cuda_gemm");
  ASSERT_TRUE(device->beginSequence());
  multiply();
  Device::Sequence sequence = device->endSequence();
  EXPECT_THAT(run(), ElementsAre(0, 0, 0));
  device->give(sequence);
  EXPECT_THAT(run(), ElementsAre(1, 0, 0));
  EXPECT_THAT(result(), Each(1.0f));
}

} // namespace
} // namespace dtc::test
