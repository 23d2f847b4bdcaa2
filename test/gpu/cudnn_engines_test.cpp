// The graphs of attention, given to cuDNN itself, where it is installed: what it would run on GPUs that are not here,
// and how much workspace that needs. Nothing is run. Built where there is a cuDNN.
#include "passes/lower/cuda/library/GpuAttention.h"
#include "runtime/abi/kernel.h"
#include "runtime/kernels/cuda/attention.h"
#include "runtime/support/error.h"

#include <bit>
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

namespace dtc::cuda {
namespace {

using namespace cudnn;

/// A GPU's properties as cuDNN writes them.
std::string describeGpu(int architecture) {
  int multiprocessors = architecture == 80 ? 108 : architecture == 90 ? 132 : 148;
  return fmt::format(R"({{"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
    "regsPerBlock": 65536, "multiProcessorCount": {}, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": {}, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
    "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
    "supportCoopLaunch": 1, "totalGlobalMem": 85000000000, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
    "l2CacheSize": 52428800, "cudaDeviceId": 0, "deviceVer": {}, "driverVer": 13000, "deviceName": "a GPU"}})",
                     multiprocessors, architecture == 80 ? 166912 : 232448, 10 * architecture);
}

struct Shape {
  int64_t batches, groups, repeats, rows, width;
  bool isOne = false; ///< queries, keys and values are parts of one tensor, and so are their gradients
};

std::string nameOf(const Shape &s) {
  return fmt::format("{}x{}x{}x{}x{}{}", s.batches, s.rows, s.groups, s.repeats, s.width, s.isOne ? "_of_one" : "");
}

/// Positions before heads, without gaps, in bf16.
std::vector<int64_t> scalarsOf(const Shape &s, bool isBackward, bool causal) {
  int64_t heads = s.groups * s.repeats, all = heads + 2 * s.groups;
  std::vector<int64_t> scalars = {s.batches, s.rows, s.rows, s.groups, s.repeats, s.width};
  auto add = [&](bool isKeys, bool isPart) {
    int64_t row = (isPart && s.isOne ? all : isKeys ? s.groups : heads) * s.width;
    scalars.insert(scalars.end(), {s.rows * row, row, isKeys ? s.width : s.repeats * s.width});
    if (!isKeys)
      scalars.push_back(s.width);
  };
  auto addParts = [&] { add(false, true), add(true, true), add(true, true); };
  addParts();
  add(false, false);
  scalars.insert(scalars.end(), {std::bit_cast<int64_t>(0.125), causal ? 2 : 0, std::bit_cast<int64_t>(0.0), 0, 0, 0, 0,
                                 s.groups, s.repeats, s.rows, dtc_bf16, 0, 0, 0});
  if (isBackward)
    add(false, false), addParts();
  return scalars;
}

void PrintTo(const Shape &shape, std::ostream *out) { *out << nameOf(shape); }

class CudnnEngines : public testing::TestWithParam<Shape> {
protected:
  static void SetUpTestSuite() {
    // From here on, whoever looks for the driver finds it by its name.
    ASSERT_TRUE(dlopen(DTC_BINARY_DIR "/test/gpu/stand_in/obliging/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) << dlerror();
    try {
      library = new Library(DTC_CUDNN_LIBRARY);
    } catch (const Error &error) {
      reason = error.what();
    }
  }
  static void TearDownTestSuite() { delete library; }

  void SetUp() override {
    if (!library)
      GTEST_SKIP() << reason;
  }

  /// The workspace of kernels for a GPU; an Error where there are none.
  static uint64_t workspaceOf(const FusedAttention &attention, int architecture, uint64_t most = UINT64_MAX) {
    Owned gpu(*library, DevicePropertiesDescriptor);
    std::string text = describeGpu(architecture);
    gpu.set(DeviceText, CharacterType, int64_t(text.size()), text.data());
    gpu.finalize();
    return Plan(*library, {nullptr, gpu.get()}, makeFusedAttention(*library, attention).graph, most).workspaceBytes();
  }

  static FusedAttention attentionOf(bool isBackward, bool causal) {
    std::string why;
    std::optional<FusedAttention> attention =
        FusedAttention::of(isBackward, scalarsOf(GetParam(), isBackward, causal), why);
    EXPECT_TRUE(attention) << why;
    return *attention;
  }

  static Library *library;
  static std::string reason;
};

Library *CudnnEngines::library;
std::string CudnnEngines::reason;

TEST_P(CudnnEngines, DoAttentionWithLittleWorkspace) {
  for (int architecture : {80, 90, 100})
    for (bool causal : {false, true}) {
      SCOPED_TRACE(fmt::format("sm_{}{}", architecture, causal ? ", causal" : ""));
      EXPECT_NO_THROW(workspaceOf(attentionOf(false, causal), architecture, Attention::SmallWorkspace));
    }
}

// The workspace that the compiler plans is enough, besides the sums of all queries, and not much too large.
TEST_P(CudnnEngines, DoItsGradientWithTheWorkspaceThatIsPlanned) {
  mlir::dt::LibraryCall call;
  call.kernel = "attention_backward";
  for (int64_t scalar : scalarsOf(GetParam(), true, true))
    call.scalars.push_back(mlir::dt::LaunchScalar::of(scalar));
  call.scalars[22] = mlir::dt::LaunchScalar::of(0.0);
  auto planned = uint64_t(GpuAttention::of(call)->libraryScratchBytesOf(call));
  auto [batches, groups, repeats, rows, width, isOne] = GetParam();
  uint64_t own = uint64_t(batches * groups * repeats * rows) * 4 / 256 * 256 + 256;
  uint64_t largest = 0;
  for (int architecture : {80, 90})
    for (bool causal : {false, true}) {
      SCOPED_TRACE(fmt::format("sm_{}{}", architecture, causal ? ", causal" : ""));
      uint64_t bytes = workspaceOf(attentionOf(true, causal), architecture) + own;
      EXPECT_LE(bytes, planned);
      largest = std::max(largest, bytes);
    }
  EXPECT_LE(planned, rows < 512 ? 2 * largest + 8192 : largest + largest / 64); // blocks of 128, for some of 64
}

// Graphs that are not attention are not accepted as such: so an accepted graph is the right one.
TEST_P(CudnnEngines, RefuseOtherGraphs) {
  FusedAttention narrow = attentionOf(false, true);
  narrow.queries[3] = narrow.keys[3] = 12;
  EXPECT_THROW(workspaceOf(narrow, 90), Error);
  FusedAttention heads = attentionOf(false, true);
  heads.queries[1] = heads.keys[1] + 1;
  if (heads.keys[1] > 1)
    EXPECT_THROW(workspaceOf(heads, 90), Error);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudnnEngines,
                         testing::Values(Shape{16, 12, 1, 1024, 64, true}, Shape{4, 8, 4, 1000, 128},
                                         Shape{4, 8, 4, 1024, 64, true}, Shape{2, 2, 2, 8, 16}, Shape{4, 3, 1, 37, 40}),
                         [](const testing::TestParamInfo<Shape> &info) { return nameOf(info.param); });

} // namespace
} // namespace dtc::cuda
