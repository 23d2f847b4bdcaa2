// The CUDA driver functions that dtc uses, declared here and looked up when a program starts. Building dtc needs
// neither toolkit nor driver, and a GPU program started without the driver says what is missing. Names and numbers are
// those of cuda.h; test/gpu/driver_header_test.cpp compares them with it.
#pragma once

#include "runtime/support/not_copied.h"
#include "runtime/support/vendor_functions.h"

#include <cstddef>
#include <cstdint>
#include <string>

struct CUctx_st;
struct CUevent_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUmod_st;
struct CUstream_st;

namespace dtc::cuda {

using DeviceNumber = int;
using DevicePointer = unsigned long long;
using Context = CUctx_st *;
using EventHandle = CUevent_st *;
using Function = CUfunc_st *;
using Graph = CUgraph_st *;
using GraphExec = CUgraphExec_st *;
using Module = CUmod_st *;
using StreamHandle = CUstream_st *;

/// CUuuid.
struct Uuid {
  char bytes[16] = {};
};

/// CUresult: only the values that dtc uses.
enum Result : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  NoDevice = 100,
  InvalidImage = 200,
  InvalidContext = 201,
  NoBinaryForGpu = 209,
  EccUncorrectable = 214,
  InvalidPtx = 218,
  JitCompilerNotFound = 221,
  UnsupportedPtxVersion = 222,
  JitCompilationDisabled = 223,
  InvalidSource = 300,
  InvalidHandle = 400,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchOutOfResources = 701,
  StreamCaptureUnsupported = 900,
};

/// CUdevice_attribute.
enum Attribute : int { MultiprocessorCount = 16, ComputeCapabilityMajor = 75, ComputeCapabilityMinor = 76 };

/// CUjit_option.
enum JitOption : int { JitErrorLogBuffer = 5, JitErrorLogBufferSize = 6 };

/// Flags.
constexpr unsigned StreamNonBlocking = 1, EventWithTime = 0, EventDisableTiming = 2;

/// CUstreamCaptureMode: of the calls that are unsafe during a capture, only this thread's are refused.
enum CaptureMode : int { CaptureThreadLocal = 1 };

// Rows as in vendor_functions.h. CUresult and other enumerations are int here: so they are passed.
#define DTC_CUDA_FUNCTIONS(X)                                                                                          \
  X(init, cuInit, int(unsigned))                                                                                       \
  X(driverGetVersion, cuDriverGetVersion, int(int *))                                                                  \
  X(getErrorName, cuGetErrorName, int(int, const char **))                                                             \
  X(getErrorString, cuGetErrorString, int(int, const char **))                                                         \
  X(deviceGetCount, cuDeviceGetCount, int(int *))                                                                      \
  X(deviceGet, cuDeviceGet, int(DeviceNumber *, int))                                                                  \
  X(deviceGetName, cuDeviceGetName, int(char *, int, DeviceNumber))                                                    \
  X(deviceGetUuid, cuDeviceGetUuid_v2, int(Uuid *, DeviceNumber))                                                      \
  X(deviceGetAttribute, cuDeviceGetAttribute, int(int *, int, DeviceNumber))                                           \
  X(primaryContextRetain, cuDevicePrimaryCtxRetain, int(Context *, DeviceNumber))                                      \
  X(primaryContextRelease, cuDevicePrimaryCtxRelease_v2, int(DeviceNumber))                                            \
  X(contextSetCurrent, cuCtxSetCurrent, int(Context))                                                                  \
  X(contextSynchronize, cuCtxSynchronize, int())                                                                       \
  X(contextGetStreamPriorityRange, cuCtxGetStreamPriorityRange, int(int *, int *))                                     \
  X(memGetInfo, cuMemGetInfo_v2, int(size_t *, size_t *))                                                              \
  X(memAlloc, cuMemAlloc_v2, int(DevicePointer *, size_t))                                                             \
  X(memFree, cuMemFree_v2, int(DevicePointer))                                                                         \
  X(memHostAlloc, cuMemHostAlloc, int(void **, size_t, unsigned))                                                      \
  X(memFreeHost, cuMemFreeHost, int(void *))                                                                           \
  X(memsetD8Async, cuMemsetD8Async, int(DevicePointer, unsigned char, size_t, StreamHandle))                           \
  X(memcpyHtoDAsync, cuMemcpyHtoDAsync_v2, int(DevicePointer, const void *, size_t, StreamHandle))                     \
  X(memcpyDtoHAsync, cuMemcpyDtoHAsync_v2, int(void *, DevicePointer, size_t, StreamHandle))                           \
  X(memcpyDtoDAsync, cuMemcpyDtoDAsync_v2, int(DevicePointer, DevicePointer, size_t, StreamHandle))                    \
  X(memcpyAsync, cuMemcpyAsync, int(DevicePointer, DevicePointer, size_t, StreamHandle))                               \
  X(streamCreate, cuStreamCreate, int(StreamHandle *, unsigned))                                                       \
  X(streamCreateWithPriority, cuStreamCreateWithPriority, int(StreamHandle *, unsigned, int))                          \
  X(streamDestroy, cuStreamDestroy_v2, int(StreamHandle))                                                              \
  X(streamSynchronize, cuStreamSynchronize, int(StreamHandle))                                                         \
  X(streamBeginCapture, cuStreamBeginCapture_v2, int(StreamHandle, int))                                               \
  X(streamEndCapture, cuStreamEndCapture, int(StreamHandle, Graph *))                                                  \
  X(graphInstantiate, cuGraphInstantiateWithFlags, int(GraphExec *, Graph, unsigned long long))                        \
  X(graphLaunch, cuGraphLaunch, int(GraphExec, StreamHandle))                                                          \
  X(graphDestroy, cuGraphDestroy, int(Graph))                                                                          \
  X(graphExecDestroy, cuGraphExecDestroy, int(GraphExec))                                                              \
  X(eventCreate, cuEventCreate, int(EventHandle *, unsigned))                                                          \
  X(eventDestroy, cuEventDestroy_v2, int(EventHandle))                                                                 \
  X(eventRecord, cuEventRecord, int(EventHandle, StreamHandle))                                                        \
  X(eventSynchronize, cuEventSynchronize, int(EventHandle))                                                            \
  X(eventQuery, cuEventQuery, int(EventHandle))                                                                        \
  X(eventElapsedTime, cuEventElapsedTime, int(float *, EventHandle, EventHandle))                                      \
  X(streamWaitEvent, cuStreamWaitEvent, int(StreamHandle, EventHandle, unsigned))                                      \
  X(moduleLoadDataEx, cuModuleLoadDataEx, int(Module *, const void *, unsigned, int *, void **))                       \
  X(moduleUnload, cuModuleUnload, int(Module))                                                                         \
  X(moduleGetFunction, cuModuleGetFunction, int(Function *, Module, const char *))                                     \
  X(launchKernel, cuLaunchKernel,                                                                                      \
    int(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, StreamHandle, void **,         \
        void **))

/// Loaded for as long as the process lives: NVIDIA's libraries do not like to go.
class Driver : NotCopied {
public:
  /// Loads and initialises the driver. Throws Error (Runtime) if the driver is missing or too old, or if there is no
  /// GPU.
  Driver();

  DTC_CUDA_FUNCTIONS(DTC_VENDOR_FUNCTION)

  int devices() const { return deviceCount; }
  int version() const { return driverVersion; } ///< 1000 * major + 10 * minor of CUDA

  /// The driver's own message for a result: "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)".
  std::string describe(int result) const;
  /// Throws Error (Runtime) unless `result` is success. `what`: "cannot make a stream".
  void check(int result, const char *what) const;

  /// The oldest version that has all required functions: CUDA 12.0.
  static constexpr int OldestVersion = 12000;

private:
  void load();
  void initialize();

  int deviceCount = 0, driverVersion = 0;
};

} // namespace dtc::cuda
