// What a GPU does beyond what every device does: passes of kernels, scratch, library functions, copies in parallel with
// launches, sequences, moments.
#include "runtime/abi/kernel.h"
#include "runtime/kernels/cuda/library.h"
#include "test/gpu/device.h"
#include "test/gpu/stand_in/find.h"
#include "test/gpu/stand_in/stand_in.h"
#include "test/gpu/variable.h"

#include <bit>
#include <chrono>
#include <dlfcn.h>
#include <numeric>
#include <thread>

namespace dtc::test {
namespace {

using testing::HasSubstr;

// The second pass reads what all blocks of the first have left in scratch.
TEST_F(Cuda, PassesRunInTheirOrderAndShareScratch) {
  abi::Kernel squares = kernel("squares", {"squares", "sum"}, 3);
  squares.set_scratch_bytes(90 * 8);
  *program.manifest.add_kernels() = squares;
  makeDevice();
  std::unique_ptr<Memory> memory = device->allocate(4096, 4096);
  Device::Kernel loaded = device->load(squares);
  ASSERT_NE(loaded, 0U);
  for (int64_t count : {1, 31, 90}) {
    void *buffers[] = {memory->base() + 256};
    device->launch(loaded, buffers, std::span(&count, 1), 1, 1);
    EXPECT_EQ(read(memory->base() + 256, 1)[0], (count - 1) * count * (2 * count - 1) / 6);
  }
}

TEST_F(Cuda, ScratchIsAsLargeAsTheKernelThatNeedsMost) {
  for (uint64_t elements : {90, 10}) {
    abi::Kernel squares = kernel("squares", {"squares", "sum"}, 3);
    squares.set_scratch_bytes(elements * 8);
    *program.manifest.add_kernels() = squares;
  }
  makeDevice();
  std::unique_ptr<Memory> memory = device->allocate(4096, 4096);
  int64_t count = 90;
  void *buffers[] = {memory->base()};
  device->launch(device->load(program.manifest.kernels(0)), buffers, std::span(&count, 1), 1, 1);
  EXPECT_EQ(read(memory->base(), 1)[0], 89 * 90 * 179 / 6);
}

TEST_F(Cuda, AKernelThatLacksAPassIsNone) {
  makeDevice();
  EXPECT_EQ(device->load(kernel("squares", {"squares", "of_nowhere"})), 0U);
  EXPECT_EQ(device->load(kernel("squares", {})), 0U);
  EXPECT_THAT(errorOf([&] { device->load(kernel("squares", {"squares"}, 0)); }), HasSubstr("3: the program is incon"));
}

// After the scalars come the grid, and the number of threads: as many as fill the GPU.
TEST_F(Cuda, LibraryKernelsAreCodeOfTheProgramWhereTheHostHasNone) {
  makeDevice();
  abi::Kernel library = kernel("threads", {});
  library.set_library(true);
  constexpr int64_t grid = 5000;
  std::unique_ptr<Memory> memory = device->allocate((grid + 1) * 8, 0);
  int64_t added = 5;
  void *buffers[] = {memory->base()};
  Device::Kernel loaded = device->load(library);
  ASSERT_NE(loaded, 0U);
  device->launch(loaded, buffers, std::span(&added, 1), grid, 1);
  EXPECT_THAT(read(memory->base(), grid), testing::Each(5 + 8 * 256)) << "of one multiprocessor";
  EXPECT_EQ(read(memory->base() + grid * 8, 1)[0], 0);
}

// Copies that the compiler inserts at the start of code have none of their own.
TEST_F(Cuda, LibraryKernelsWithoutCodeForTheirShapeRunThatForAll) {
  makeDevice();
  abi::Kernel library = kernel("threads$3x5", {"threads$3x5"});
  library.set_library(true);
  std::unique_ptr<Memory> memory = device->allocate(4096, 0);
  int64_t added = 5;
  void *buffers[] = {memory->base()};
  Device::Kernel loaded = device->load(library);
  ASSERT_NE(loaded, 0U);
  device->launch(loaded, buffers, std::span(&added, 1), 4, 1);
  EXPECT_THAT(read(memory->base(), 4), testing::Each(5 + 8 * 256));
}

TEST_F(Cuda, HostFunctionsStandInTheOrderOfLaunches) {
  makeDevice();
  abi::Kernel gemm = kernel("dtc_cuda_gemm", {});
  gemm.set_library(true);
  Device::Kernel product = device->load(gemm);
  ASSERT_NE(product, 0U);
  std::unique_ptr<Memory> memory = device->allocate(4096, 4096);
  std::vector<float> a = {1, 2, 3, 4}, b = {5, 6, 7, 8}, c(4), d(4);
  device->write(memory->base(), std::as_bytes(std::span(a)));
  device->write(memory->base() + 256, std::as_bytes(std::span(b)));
  std::vector<int64_t> scalars = {1, 2, 2, 2, 0, 0, 2, 2, 2, 0, 0, 0, 0, 0, dtc_f32, dtc_f32};
  void *first[] = {memory->base(), memory->base() + 256, memory->base() + 512};
  void *second[] = {memory->base() + 512, memory->base() + 768, memory->base() + 1024};
  device->launch(product, first, scalars, 2, 1);
  device->copy(memory->base() + 768, memory->base(), 16);
  device->launch(product, second, scalars, 2, 1);
  device->read(std::as_writable_bytes(std::span(c)), memory->base() + 512);
  device->read(std::as_writable_bytes(std::span(d)), memory->base() + 1024);
  EXPECT_THAT(c, testing::ElementsAre(19, 22, 43, 50));
  EXPECT_THAT(d, testing::ElementsAre(85, 126, 193, 286));
}

// More bytes than all buffers of pinned memory hold, so that these are reused while copies are in progress.
TEST_F(Cuda, CopiesOfAnySizeWithTheHost) {
  makeDevice();
  size_t count = (cuda::Staging::BufferCount * 2 + 1) * cuda::Staging::BufferBytes / 8 + 3;
  std::unique_ptr<Memory> memory = device->allocate((count + 2) * 8, 0);
  std::vector<int64_t> values(count);
  std::iota(values.begin(), values.end(), 1);
  device->write(memory->base() + 8, std::as_bytes(std::span(values)));
  std::vector<int64_t> expected = values;
  values.assign(count, 0); // the host may overwrite it again
  EXPECT_EQ(read(memory->base() + 8, count), expected);
  EXPECT_EQ(read(memory->base(), 1)[0], 0);
  EXPECT_EQ(read(memory->base() + (count + 1) * 8, 1)[0], 0);
  EXPECT_EQ(read(memory->base(), 0).size(), 0U);
}

// A GPU may reach the stream of a copy before it reaches the launches that precede the copy, and may reach what follows
// the wait before the copy: with all its work at hand, the shortest first.
TEST_F(Cuda, CopiesBesideLaunchesAreHeldByEvents) {
  makeDevice();
  auto *finish = findInDriver<dtc_stand_in_finish_fn>("dtc_stand_in_finish");
  Device::Kernel loaded = device->load(kernel("add_one", {"add_one"}));
  std::unique_ptr<Memory> memory = device->allocate(4096, 4096), host = device->allocateHost(4096);
  void *buffers[] = {memory->base()};
  std::vector<int64_t> scalars = {1, 8, 32}; // added, grid, threads
  for (int64_t round = 0; round < 20; ++round) {
    for (int i = 0; i < 5; ++i)
      device->launch(loaded, buffers, scalars, 1, 1);
    Device::CopyHandle away = device->startCopy(host->base(), memory->base(), 64, 4);
    finish();
    int64_t moved = 0;
    std::memcpy(&moved, host->base(), 8);
    EXPECT_EQ(moved, 6 * round + 5);
    device->awaitCopy(away);
    device->launch(loaded, buffers, scalars, 1, 1);
    std::vector<Device::CopyHandle> others; // so that the copies' stream is the busier one
    for (int64_t i = 1; i < 6; ++i)
      others.push_back(device->startCopy(memory->base() + 1024 + 64 * i, host->base(), 64, 4));
    Device::CopyHandle home = device->startCopy(memory->base() + 1024, host->base(), 64, 4);
    device->awaitCopy(home);
    device->copy(memory->base() + 2048, memory->base() + 1024, 64);
    finish();
    for (const Device::CopyHandle &other : others)
      device->awaitCopy(other);
    EXPECT_EQ(read(memory->base() + 2048, 1)[0], 6 * round + 5);
  }
}

// The GPU waits by itself: nothing is done for the host, whatever was started and waited for.
TEST_F(Cuda, NoHostWaitsForACopyBesideLaunches) {
  makeDevice();
  std::unique_ptr<Memory> memory = device->allocate(4096, 4096), host = device->allocateHost(4096);
  device->wait(device->record());
  std::vector<int64_t> values = {7};
  device->write(memory->base(), std::as_bytes(std::span(values)));
  double waited = device->figures(true)->waitedSeconds;
  for (uint32_t channel : {0, 3, 0})
    device->awaitCopy(device->startCopy(host->base() + 64 * channel, memory->base(), 64, channel));
  EXPECT_EQ(*host->base(), std::byte{0}) << "the stand-in does what somebody waits for";
  EXPECT_EQ(device->figures(true)->waitedSeconds, waited);
  device->wait(device->record());
  EXPECT_EQ(*host->base(), std::byte{7});
}

// More events than the driver provided at first, waited for in and out of order.
TEST_F(Cuda, EventsOfLongAgoAreOver) {
  makeDevice();
  std::vector<Device::Event> events;
  for (int i = 0; i < 200; ++i)
    events.push_back(device->record());
  for (size_t each : {199, 0, 130, 70, 71, 199})
    device->wait(events[each]);
  EXPECT_TRUE(std::is_sorted(events.begin(), events.end()));
}

// The stand-in does nothing before it is waited for, so every mark comes after all work has been enqueued, and after a
// pause. The first mark synchronizes the GPU's clock with the host's: times may be late by as much as that takes.
TEST_F(Cuda, MomentsAreThoseOfTheGpu) {
  makeDevice();
  std::unique_ptr<Memory> memory = device->allocate(4096, 4096);
  auto now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
  constexpr int64_t Rounding = 1000; // of times in milliseconds, as f32
  for (int round = 0; round < 2; ++round) {
    int64_t begin = now(), late = 0;
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(device->mark(), i);
      late = i == 0 ? now() - begin : late;
      device->copy(memory->base(), memory->base() + 2048, 1024);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    int64_t given = now();
    std::vector<int64_t> moments = device->takeMoments();
    int64_t taken = now();
    ASSERT_EQ(moments.size(), 3U);
    EXPECT_GT(moments[1], given - Rounding) << "the first copy was done when it was waited for";
    EXPECT_TRUE(std::ranges::is_sorted(moments));
    EXPECT_LE(moments[2], taken + late + Rounding);
    EXPECT_THAT(device->takeMoments(), testing::IsEmpty());
  }
}

TEST_F(Cuda, FiguresSayWhatThereIs) {
  makeDevice();
  DeviceFigures before = *device->figures(/*sixteenBits=*/true);
  EXPECT_EQ(before.peakFlops, 0) << "of a GPU that is in no data sheet";
  {
    auto more = device->allocate(5000, 0);
    device->wait(device->record());
    EXPECT_EQ(device->figures(true)->memoryBytes, before.memoryBytes + 5000);
  }
  DeviceFigures after = *device->figures(true);
  EXPECT_EQ(after.memoryBytes, before.memoryBytes);
  EXPECT_GT(after.waitedSeconds, before.waitedSeconds) << "the clearing of the memory";
}

TEST(CudaPeak, IsThatOfTheDataSheet) {
  EXPECT_EQ(cuda::peakFlopsOf("NVIDIA H200", true), 989.5e12);
  EXPECT_EQ(cuda::peakFlopsOf("NVIDIA H100 80GB HBM3", true), 989.5e12);
  EXPECT_EQ(cuda::peakFlopsOf("NVIDIA H100 PCIe", true), 756e12);
  EXPECT_EQ(cuda::peakFlopsOf("NVIDIA A100-SXM4-80GB", false), 19.5e12);
  EXPECT_EQ(cuda::peakFlopsOf("NVIDIA RTX A1000", true), 0);
}

/// How many products a library has done.
int productsOf(const char *library) {
  void *loaded = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  if (!loaded)
    return 0;
  auto *count = reinterpret_cast<dtc_stand_in_products_run_fn *>(dlsym(loaded, "dtc_stand_in_products_run"));
  dlclose(loaded);
  int products = 0;
  for (int algorithm = 0; algorithm < DTC_STAND_IN_ALGORITHMS; ++algorithm)
    products += count(algorithm);
  return products;
}

// Both are there; the newer one does not work with an older driver.
TEST_F(Cuda, ProductsAreOfALibraryThatTheDriverKnows) {
  for (auto [driver, wanted, other] : {std::tuple("version=12080", "libcublasLt.so.12", "libcublasLt.so.13"),
                                       std::tuple("version=13000", "libcublasLt.so.13", "libcublasLt.so.12")}) {
    Variable variable("DTC_STAND_IN", driver);
    abi::Kernel gemm = kernel("dtc_cuda_gemm", {});
    gemm.set_library(true);
    gemm.set_scratch_bytes(4096);
    *program.manifest.mutable_kernels()->Add() = gemm;
    device.emplace(program.manifest, program.code, cuda::LocalRank{}, cuda::makeLibraryKernels());
    Device::Kernel product = device->load(gemm);
    std::unique_ptr<Memory> memory = device->allocate(4096, 4096);
    std::vector<int64_t> scalars = {1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, dtc_f32, dtc_f32};
    void *buffers[] = {memory->base(), memory->base() + 256, memory->base() + 512};
    int before = productsOf(wanted), othersBefore = productsOf(other);
    device->launch(product, buffers, scalars, 1, 1);
    device->wait(device->record());
    EXPECT_EQ(productsOf(wanted), before + 1) << driver;
    EXPECT_EQ(productsOf(other), othersBefore) << driver;
  }
}

// Recorded work does not run at once; then it runs each time it is given, host functions and copies included.
TEST_F(Cuda, SequencesAreGivenAgain) {
  makeDevice();
  abi::Kernel gemm = kernel("dtc_cuda_gemm", {});
  gemm.set_library(true);
  Device::Kernel product = device->load(gemm);
  std::unique_ptr<Memory> memory = device->allocate(4096, 4096);
  std::vector<float> a = {2}, b = {3}, c(1);
  device->write(memory->base(), std::as_bytes(std::span(a)));
  device->write(memory->base() + 256, std::as_bytes(std::span(b)));
  std::vector<int64_t> scalars = {1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, dtc_f32, dtc_f32};
  void *buffers[] = {memory->base(), memory->base() + 256, memory->base() + 512};
  auto valueAt = [&](size_t offset) {
    device->read(std::as_writable_bytes(std::span(c)), memory->base() + offset);
    return c[0];
  };
  ASSERT_TRUE(device->beginSequence());
  device->launch(product, buffers, scalars, 1, 1);
  device->copy(memory->base(), memory->base() + 512, 4);
  Device::Sequence sequence = device->endSequence();
  ASSERT_NE(sequence, 0U);
  scalars.assign(scalars.size(), 0); // the launch still owned them
  EXPECT_EQ(valueAt(0), 2);
  for (float expected : {6, 18, 54}) {
    device->give(sequence);
    EXPECT_EQ(valueAt(512), expected);
  }
  b = {10};
  device->write(memory->base() + 256, std::as_bytes(std::span(b)));
  device->give(sequence);
  EXPECT_EQ(valueAt(0), 540) << "the contents of buffers are read anew";
}

// While launches are recorded cuDNN may load nothing: shapes that it has not prepared before are left to the program's
// own kernels.
TEST_F(Cuda, AttentionIsCudnnsOnceItWasGivenOutsideOfASequence) {
  abi::Kernel attention = kernel("dtc_cuda_attention_forward$bf16_8_causal_1x2x2x1x1", {"attend"});
  attention.set_library(true);
  *program.manifest.add_kernels() = attention;
  makeDevice();
  std::unique_ptr<Memory> memory = device->allocate(4096, 4096);
  Device::Kernel loaded = device->load(attention);
  std::vector<void *> buffers;
  for (int64_t i = 0; i < 8; ++i)
    buffers.push_back(memory->base() + 256 * i);
  std::vector<int64_t> scalars = {1, 2, 2, 1, 1, 8, 16, 8, 8, 8, 16, 8, 8, 16, 8, 8, 16, 8, 8, 8};
  scalars.insert(scalars.end(), {std::bit_cast<int64_t>(1.0), 2, 0, 0, 0, 0, 0, 1, 1, 2, dtc_bf16, 0, 0, 0});
  auto note = [&] {
    ASSERT_TRUE(device->beginSequence());
    device->launch(loaded, buffers, scalars, 1, 1);
    device->give(device->endSequence());
  };
  auto *out = static_cast<std::byte *>(buffers[6]);
  note();
  EXPECT_EQ(read(out, 1)[0], 77);
  device->launch(loaded, buffers, scalars, 1, 1);
  EXPECT_EQ(read(out, 1)[0], 0) << "of values that are zero";
  int64_t mark = 5;
  device->write(out, std::as_bytes(std::span(&mark, 1)));
  note();
  EXPECT_EQ(read(out, 1)[0], 0);
  EXPECT_THAT(device->takeNotes(), testing::ElementsAre(HasSubstr("may be cuDNN's"), HasSubstr("is cuDNN's")));
}

TEST_F(Cuda, SequencesAreNotedUnlessLaunchesAreToStandAlone) {
  makeDevice(/*graphs=*/false);
  EXPECT_FALSE(device->beginSequence());
  Variable blocking("CUDA_LAUNCH_BLOCKING", "1");
  makeDevice();
  EXPECT_FALSE(device->beginSequence());
  Variable none("CUDA_LAUNCH_BLOCKING", "0");
  makeDevice();
  EXPECT_TRUE(device->beginSequence());
}

} // namespace
} // namespace dtc::test
