// A driver that has no GPU and accepts any code: with it cuDNN makes kernels for GPUs that are not here, from their
// properties, and says what it would run on them.
#include <cstddef>

namespace {
char something[64];
}

extern "C" {

int cuInit(unsigned) { return 100; }
int cuDeviceGetCount(int *count) {
  *count = 0;
  return 100;
}
int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}

#define DTC_NAMES(name)                                                                                                \
  int name(int, const char **words) {                                                                                  \
    *words = #name;                                                                                                    \
    return 0;                                                                                                          \
  }
DTC_NAMES(cuGetErrorName)
DTC_NAMES(cuGetErrorString)

// Those that give code or a part of it give something.
#define DTC_GIVES(name)                                                                                                \
  int name(void **result) {                                                                                            \
    *result = something;                                                                                               \
    return 0;                                                                                                          \
  }
DTC_GIVES(cuLibraryLoadData)
DTC_GIVES(cuLibraryLoadFromFile)
DTC_GIVES(cuLibraryGetKernel)
DTC_GIVES(cuModuleLoadData)
DTC_GIVES(cuModuleLoadDataEx)
DTC_GIVES(cuModuleLoadFatBinary)
DTC_GIVES(cuModuleGetFunction)
DTC_GIVES(cuCtxGetCurrent)

#define DTC_DOES_NOTHING(name)                                                                                         \
  int name() { return 0; }
DTC_DOES_NOTHING(cuCtxGetDevice)
DTC_DOES_NOTHING(cuCtxGetLimit)
DTC_DOES_NOTHING(cuCtxPopCurrent)
DTC_DOES_NOTHING(cuCtxPushCurrent)
DTC_DOES_NOTHING(cuDeviceGet)
DTC_DOES_NOTHING(cuDeviceGetAttribute)
DTC_DOES_NOTHING(cuDevicePrimaryCtxRelease)
DTC_DOES_NOTHING(cuDevicePrimaryCtxReset)
DTC_DOES_NOTHING(cuDevicePrimaryCtxRetain)
DTC_DOES_NOTHING(cuFuncGetAttribute)
DTC_DOES_NOTHING(cuFuncSetAttribute)
DTC_DOES_NOTHING(cuKernelGetAttribute)
DTC_DOES_NOTHING(cuKernelSetAttribute)
DTC_DOES_NOTHING(cuLaunchCooperativeKernel)
DTC_DOES_NOTHING(cuLaunchKernel)
DTC_DOES_NOTHING(cuLaunchKernelEx)
DTC_DOES_NOTHING(cuLibraryUnload)
DTC_DOES_NOTHING(cuLinkAddData)
DTC_DOES_NOTHING(cuLinkAddData_v2)
DTC_DOES_NOTHING(cuLinkAddFile_v2)
DTC_DOES_NOTHING(cuLinkComplete)
DTC_DOES_NOTHING(cuLinkCreate)
DTC_DOES_NOTHING(cuLinkCreate_v2)
DTC_DOES_NOTHING(cuLinkDestroy)
DTC_DOES_NOTHING(cuMemcpyDtoH_v2)
DTC_DOES_NOTHING(cuModuleGetGlobal_v2)
DTC_DOES_NOTHING(cuModuleUnload)
DTC_DOES_NOTHING(cuOccupancyMaxActiveBlocksPerMultiprocessor)
DTC_DOES_NOTHING(cuOccupancyMaxPotentialClusterSize)
DTC_DOES_NOTHING(cuStreamGetCtx)
DTC_DOES_NOTHING(cuStreamSynchronize)
DTC_DOES_NOTHING(cuTensorMapEncodeTiled)
}
