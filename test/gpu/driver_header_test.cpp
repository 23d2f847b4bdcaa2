// Compares our declarations of the driver's functions, types and numbers with NVIDIA's own. Nothing is run: a
// difference does not compile.
#include "runtime/device/cuda/driver.h"

#include <algorithm>
#include <cuda.h>
#include <gtest/gtest.h>
#include <type_traits>
#include <utility>

namespace dtc::cuda {
namespace {

/// Enumerations are passed as int.
template <typename T> struct PlainOf {
  using Type = std::conditional_t<std::is_enum_v<T>, int, T>;
};
template <typename T> struct PlainOf<T *> {
  using Type = std::conditional_t<std::is_enum_v<T>, int *, T *>;
};
template <> struct PlainOf<CUuuid *> {
  using Type = Uuid *;
};
static_assert(sizeof(CUuuid) == sizeof(Uuid));
template <typename Result, typename... Parameters> struct PlainOf<Result(Parameters...)> {
  using Type = typename PlainOf<Result>::Type(typename PlainOf<Parameters>::Type...);
};
template <typename T> using Plain = typename PlainOf<T>::Type;

#define DTC_CUDA_COMPARE(member, symbol, ...)                                                                          \
  static_assert(std::is_same_v<Plain<decltype(::symbol)>, Driver::member##_fn>, #symbol);
DTC_CUDA_FUNCTIONS(DTC_CUDA_COMPARE)

static_assert(sizeof(CUresult) == sizeof(int) && sizeof(CUdevice_attribute) == sizeof(int) &&
              sizeof(CUjit_option) == sizeof(int));
static_assert(std::is_same_v<CUdevice, DeviceNumber> && std::is_same_v<CUdeviceptr, DevicePointer>);

constexpr std::pair<int, int> Numbers[] = {
    {Success, CUDA_SUCCESS},
    {InvalidValue, CUDA_ERROR_INVALID_VALUE},
    {OutOfMemory, CUDA_ERROR_OUT_OF_MEMORY},
    {NotInitialized, CUDA_ERROR_NOT_INITIALIZED},
    {NoDevice, CUDA_ERROR_NO_DEVICE},
    {InvalidImage, CUDA_ERROR_INVALID_IMAGE},
    {InvalidContext, CUDA_ERROR_INVALID_CONTEXT},
    {NoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU},
    {EccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE},
    {InvalidPtx, CUDA_ERROR_INVALID_PTX},
    {JitCompilerNotFound, CUDA_ERROR_JIT_COMPILER_NOT_FOUND},
    {UnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
    {JitCompilationDisabled, CUDA_ERROR_JIT_COMPILATION_DISABLED},
    {InvalidSource, CUDA_ERROR_INVALID_SOURCE},
    {InvalidHandle, CUDA_ERROR_INVALID_HANDLE},
    {NotFound, CUDA_ERROR_NOT_FOUND},
    {NotReady, CUDA_ERROR_NOT_READY},
    {IllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS},
    {LaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES},
    {StreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
    {CaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
    {MultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {ComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    {ComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    {JitErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER},
    {JitErrorLogBufferSize, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES},
    {StreamNonBlocking, CU_STREAM_NON_BLOCKING},
    {EventWithTime, CU_EVENT_DEFAULT},
    {EventDisableTiming, CU_EVENT_DISABLE_TIMING},
};
static_assert(std::ranges::all_of(Numbers, [](auto each) { return each.first == each.second; }));

TEST(CudaDriver, IsDeclaredAsNvidiaDoes) { EXPECT_GE(CUDA_VERSION, Driver::OldestVersion); }

} // namespace
} // namespace dtc::cuda
