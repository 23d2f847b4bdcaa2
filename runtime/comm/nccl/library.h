// The NCCL functions that dtc uses, declared here and looked up when a program of several ranks starts: building dtc
// does not need NCCL. Names and numbers are those of nccl.h; test/gpu/nccl_header_test.cpp compares them with it.
#pragma once

#include "runtime/device/cuda/driver.h"

#include <climits>
#include <cstddef>
#include <string>

struct ncclComm;

namespace dtc::nccl {

using Comm = ncclComm *;
using Stream = cuda::StreamHandle;

struct UniqueId {
  char bytes[128];
};

/// ncclResult_t: only the values that dtc uses.
enum Result : int { Success = 0, InProgress = 7 };
inline constexpr int NoColor = -1; ///< for a rank that is in no part of a split
/// ncclDataType_t.
enum Type : int { Uint8 = 1, Int32 = 2, Float16 = 6, Float32 = 7, Bfloat16 = 9 };
/// ncclRedOp_t.
enum Operation : int { Sum = 0, Max = 2 };

/// ncclConfig_t of NCCL 2.18; later versions use their defaults for fields that it lacks.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef, version = 21800;
  int blocking = 0;
  int clusterSize = INT_MIN, minimumBlocks = INT_MIN, maximumBlocks = INT_MIN;
  const char *network = nullptr;
  int splitShare = INT_MIN;
};

// member, result and parameters. Enumerations are int here, which is how they are passed.
#define DTC_NCCL_FUNCTIONS(X)                                                                                          \
  X(GetVersion, int(int *))                                                                                            \
  X(GetUniqueId, int(UniqueId *))                                                                                      \
  X(CommInitRankConfig, int(Comm *, int, UniqueId, int, Config *))                                                     \
  X(CommSplit, int(Comm, int, int, Comm *, Config *))                                                                  \
  X(CommDestroy, int(Comm))                                                                                            \
  X(CommAbort, int(Comm))                                                                                              \
  X(CommGetAsyncError, int(Comm, int *))                                                                               \
  X(GetErrorString, const char *(int))                                                                                 \
  X(GetLastError, const char *(Comm))                                                                                  \
  X(AllReduce, int(const void *, void *, size_t, int, int, Comm, Stream))                                              \
  X(AllGather, int(const void *, void *, size_t, int, Comm, Stream))                                                   \
  X(Broadcast, int(const void *, void *, size_t, int, int, Comm, Stream))                                              \
  X(ReduceScatter, int(const void *, void *, size_t, int, int, Comm, Stream))                                          \
  X(Send, int(const void *, size_t, int, int, Comm, Stream))                                                           \
  X(Recv, int(void *, size_t, int, int, Comm, Stream))                                                                 \
  X(GroupStart, int())                                                                                                 \
  X(GroupEnd, int())

// Functions of later versions: 2.19. Null in older ones.
#define DTC_NCCL_LATER_FUNCTIONS(X)                                                                                    \
  X(MemAlloc, int(void **, size_t))                                                                                    \
  X(MemFree, int(void *))                                                                                              \
  X(CommRegister, int(const Comm, void *, size_t, void **))                                                            \
  X(CommDeregister, int(const Comm, void *))

/// Loaded once and never unloaded, because NCCL has its own threads.
class Library {
public:
  /// Sets the environment variables that NCCL reads, unless the user has set them. With `hasPipeline`, commands may
  /// wait for others that are enqueued later, so NCCL must not enforce the order of the calls. Throws Error (Runtime)
  /// if NCCL is missing or too old, or naming the user's setting that would make a pipeline hang.
  explicit Library(bool hasPipeline = false);

#define DTC_NCCL_DECLARE(member, ...)                                                                                  \
  using member##_fn = __VA_ARGS__;                                                                                     \
  member##_fn *member = nullptr;
  DTC_NCCL_FUNCTIONS(DTC_NCCL_DECLARE)
  DTC_NCCL_LATER_FUNCTIONS(DTC_NCCL_DECLARE)
#undef DTC_NCCL_DECLARE

  /// NCCL's message for a result, and the last error of `comm` if it is not null.
  std::string describe(int result, Comm comm) const;

  /// Whether NCCL launches work for several communicators in the order of the calls.
  bool keepsOrder() const { return !hasPipeline && version >= OldestWithOrder; }

  /// The oldest version that has all required functions: 2.18.
  static constexpr int OldestVersion = 21800;

private:
  static constexpr int OldestWithOrder = 22600;

  bool hasPipeline;
  int version = 0;
};

} // namespace dtc::nccl
