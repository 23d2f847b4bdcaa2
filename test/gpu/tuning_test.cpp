// Algorithms for products that are chosen by time, on the stand-ins for the driver and for cuBLASLt: the last algorithm
// that its heuristic names is the fastest.
#include "runtime/abi/element_type.h"
#include "runtime/abi/epilogue.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/kernels/cuda/choices.h"
#include "runtime/kernels/cuda/library.h"
#include "test/gpu/stand_in/stand_in.h"
#include "test/runtime/temporary_directory.h"

#include <atomic>
#include <dlfcn.h>
#include <fstream>
#include <gmock/gmock.h>
#include <thread>

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
    std::string code = readFile(DTC_BINARY_DIR "/test/gpu/stand_in/kernels.so");
    manifest.add_code()->set_name("cubin.sm_90");
    manifest.mutable_code(0)->set_bytes(code.size());
    kernel.set_symbol(symbol);
    kernel.set_library(true);
    kernel.set_scratch_bytes(Scratch);
    *manifest.add_kernels() = kernel;
    cuda::ProductChoices choices;
    choices.tuned = tunes ? file : "";
    memory.reset();
    device.emplace(manifest, code, cuda::LocalRank{}, cuda::makeLibraryKernels(choices));
    unsetenv("DTC_STAND_IN");
    memory = device->allocate(3 * MatrixBytes, 3 * MatrixBytes);
    product = device->load(kernel);
    ASSERT_NE(product, 0U);
    write(0, std::vector<float>(Columns, 1));
    write(1, std::vector<float>(Columns, 1));
    write(2, std::vector<float>(Rows * Columns, 10));
    run(); // the library stays loaded from test to test, and counts on
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
    if (kernel.symbol() == "dtc_cuda_product$accumulate") { // in place of the accumulator
      buffers.push_back(matrix(2));
      scalars.push_back(static_cast<int64_t>(abi::Epilogue::Accumulate));
    }
    if (kernel.symbol() == "dtc_cuda_product$bias") { // a row of ones
      buffers.insert(buffers.begin() + 2, matrix(1));
      scalars.push_back(static_cast<int64_t>(abi::Epilogue::Bias));
    }
    device->launch(product, buffers, scalars, 1, 1);
  }

  /// How many products each algorithm has done since the last call.
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

  /// Likewise, when one more is done.
  std::vector<int> multiplied() {
    multiply();
    return run();
  }

  TemporaryDirectory directory;
  std::string file = directory / "tuned";
  abi::Kernel kernel;
  std::optional<CudaDevice> device;
  std::unique_ptr<Memory> memory;
  Device::Kernel product = 0;
  int known[DTC_STAND_IN_ALGORITHMS] = {};
};

TEST_F(Tuning, IsNotDoneUnasked) {
  makeDevice(/*tunes=*/false, "dtc_cuda_gemm");
  multiply();
  EXPECT_THAT(multiplied(), ElementsAre(2, 0, 0));
  EXPECT_THAT(result(), Each(1.0f));
}

// One launch that does not count, four that are timed; then the fastest does the work, also that of later launches.
TEST_F(Tuning, KeepsTheFastestOfAShape) {
  makeDevice(true, "dtc_cuda_gemm");
  EXPECT_THAT(multiplied(), ElementsAre(5, 5, 5 + 1));
  EXPECT_THAT(multiplied(), ElementsAre(0, 0, 1));
  EXPECT_THAT(result(), Each(1.0f));
}

TEST_F(Tuning, IsDoneOnceForAFile) {
  makeDevice(true, "dtc_cuda_gemm");
  multiply();
  run();
  std::string choices = readFile(file);
  EXPECT_THAT(choices, testing::HasSubstr("stand-in, cuBLASLt 130000: 1 3 8 "));
  makeDevice(true, "dtc_cuda_gemm");
  EXPECT_THAT(multiplied(), ElementsAre(0, 0, 1)) << "the fastest, without a look at others";
  EXPECT_EQ(readFile(file), choices);
}

// Two ranks that reach a product at the same time: one times, and both use its choice.
TEST_F(Tuning, IsOneRanksAtATime) {
  cuda::ChoiceFile first(file), second(file);
  std::atomic<int> made = 0;
  auto make = [&](bool isPlain) {
    return [&made, isPlain] {
      ++made;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return cuda::ProductChoice{isPlain, {}};
    };
  };
  bool others = false;
  std::thread rank([&] { others = second.findOrMake("a product", make(true)).isPlain; });
  bool ours = first.findOrMake("a product", make(false)).isPlain;
  rank.join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(ours, others);
}

TEST_F(Tuning, TakesNoOtherFile) {
  std::ofstream(file) << "a product\tfused 0 1 2 3 4 5 6\n";
  try {
    cuda::ChoiceFile choices(file);
    FAIL() << "it was taken";
  } catch (const Error &error) {
    EXPECT_EQ(error.what(),
              "the file of --tune, '" + file +
                  "', has something else in line 1; give --tune another file, or delete it to choose anew");
  }
}

// The epilogue is slow as part of the product, so it becomes a kernel of the program.
TEST_F(Tuning, TimesAnEpilogueOfItsOwnToo) {
  setenv("DTC_STAND_IN_CUBLASLT", "slow", 1);
  makeDevice(true, "dtc_cuda_product$bias");
  multiply();
  unsetenv("DTC_STAND_IN_CUBLASLT");
  EXPECT_THAT(run(), ElementsAre(10, 10, 10 + 1));
  EXPECT_THAT(result(), Each(2.0f));
  EXPECT_THAT(readFile(file), testing::HasSubstr("\tplain "));
  multiply();
  EXPECT_THAT(result(), Each(2.0f));
}

// The same where cuBLASLt has none, timed or not, in a graph or not.
TEST_F(Tuning, DoesWithoutEpilogues) {
  setenv("DTC_STAND_IN_CUBLASLT", "few", 1);
  for (bool tunes : {false, true}) {
    makeDevice(tunes, "dtc_cuda_product$bias");
    multiply();
    EXPECT_THAT(result(), Each(2.0f));
    ASSERT_TRUE(device->beginSequence());
    multiply();
    Device::Sequence sequence = device->endSequence();
    write(1, std::vector<float>(Columns, 3));
    device->give(sequence);
    EXPECT_THAT(result(), Each(6.0f));
  }
  unsetenv("DTC_STAND_IN_CUBLASLT");
}

// An accumulator in place has the same contents as before the timing.
TEST_F(Tuning, AddsToAnAccumulatorOnce) {
  makeDevice(true, "dtc_cuda_product$accumulate");
  EXPECT_THAT(multiplied(), ElementsAre(5, 5, 5 + 1));
  EXPECT_THAT(result(), Each(11.0f));
  EXPECT_THAT(multiplied(), ElementsAre(0, 0, 1));
  EXPECT_THAT(result(), Each(12.0f));
}

// The tensors and the kernels' scratch take all memory.
TEST_F(Tuning, WithoutMemoryForTheAccumulatorTakesTheFirst) {
  makeDevice(true, "dtc_cuda_product$accumulate", "memory=4944");
  EXPECT_THAT(multiplied(), ElementsAre(1, 0, 0));
  EXPECT_THAT(result(), Each(11.0f));
}

// Captured work does not run, so it has no time.
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
