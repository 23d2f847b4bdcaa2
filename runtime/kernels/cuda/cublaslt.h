// The functions of NVIDIA's matrix product library that dtc uses, declared here and looked up when a program starts,
// like the driver's (driver.h). Names and numbers are those of cublasLt.h; test/gpu/cublaslt_header_test.cpp compares
// them with it.
#pragma once

#include "runtime/device/cuda/driver.h"
#include "runtime/support/not_copied.h"
#include "runtime/support/vendor_functions.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

struct cublasLtContext;

namespace dtc::cublaslt {

using Handle = cublasLtContext *;
/// Opaque descriptors.
struct LayoutState;
struct OperationState;
struct PreferenceState;
using Layout = LayoutState *;
using Operation = OperationState *;
using Preference = PreferenceState *;

/// cublasStatus_t: only the values that dtc uses.
enum Status : int { Success = 0, NotInitialized = 1, InvalidValue = 7, ExecutionFailed = 13, NotSupported = 15 };

/// cudaDataType_t.
enum DataType : int { R32F = 0, R16F = 2, R16BF = 14 };

/// cublasComputeType_t. Sums are f32; with TF32 the factors of f32 products have 10 bits of fraction.
enum ComputeType : int { Compute32F = 68, ComputeTf32 = 77 };

/// cublasOperation_t.
enum Transposition : int32_t { NotTransposed = 0, Transposed = 1 };

/// cublasLtMatrixLayoutAttribute_t; layouts are column-major by default.
enum LayoutAttribute : int { LayoutBatchCount = 5, LayoutBatchStride = 6 };

/// cublasLtMatmulDescAttributes_t.
enum OperationAttribute : int {
  OperationTransposeA = 3,
  OperationTransposeB = 4,
  OperationEpilogue = 7,
  OperationBias = 8,
  OperationAux = 11,
  OperationAuxLeading = 12
};

/// cublasLtEpilogue_t: what is done to the elements of a result. `Aux` is an additional matrix.
enum Epilogue : uint32_t {
  EpilogueNone = 1,
  EpilogueBias = 4,
  EpilogueGeluBias = 36,
  EpilogueGeluAuxBias = 164,
  EpilogueGeluGradient = 192
};

/// cublasLtMatmulPreferenceAttributes_t.
enum PreferenceAttribute : int {
  PreferenceWorkspaceBytes = 1,
  PreferenceReductions = 3,
  PreferenceAlignmentA = 5,
  PreferenceAlignmentB = 6,
  PreferenceAlignmentC = 7,
  PreferenceAlignmentD = 8
};

/// cublasLtReductionScheme_t, bits of PreferenceReductions. Partial sums of a split sum are added in f32 and in a fixed
/// order: not in the type of the result, which may be narrow, and not in place.
enum Reduction : uint32_t { ReductionNone = 0, ReductionInF32 = 2 };

/// cublasLtMatmulAlgo_t.
struct Algorithm {
  uint64_t data[8];
};

/// cublasLtMatmulHeuristicResult_t.
struct Heuristic {
  Algorithm algorithm;
  size_t workspaceBytes;
  int status;
  float waves;
  int reserved[4];
};

// Rows as in vendor_functions.h. cublasStatus_t and other enumerations are int here: so they are passed.
#define DTC_CUBLASLT_FUNCTIONS(X)                                                                                      \
  X(getVersion, cublasLtGetVersion, size_t())                                                                          \
  X(getStatusName, cublasLtGetStatusName, const char *(int))                                                           \
  X(create, cublasLtCreate, int(Handle *))                                                                             \
  X(destroy, cublasLtDestroy, int(Handle))                                                                             \
  X(layoutCreate, cublasLtMatrixLayoutCreate, int(Layout *, int, uint64_t, uint64_t, int64_t))                         \
  X(layoutDestroy, cublasLtMatrixLayoutDestroy, int(Layout))                                                           \
  X(layoutSet, cublasLtMatrixLayoutSetAttribute, int(Layout, int, const void *, size_t))                               \
  X(operationCreate, cublasLtMatmulDescCreate, int(Operation *, int, int))                                             \
  X(operationDestroy, cublasLtMatmulDescDestroy, int(Operation))                                                       \
  X(operationSet, cublasLtMatmulDescSetAttribute, int(Operation, int, const void *, size_t))                           \
  X(preferenceCreate, cublasLtMatmulPreferenceCreate, int(Preference *))                                               \
  X(preferenceDestroy, cublasLtMatmulPreferenceDestroy, int(Preference))                                               \
  X(preferenceSet, cublasLtMatmulPreferenceSetAttribute, int(Preference, int, const void *, size_t))                   \
  X(getHeuristic, cublasLtMatmulAlgoGetHeuristic,                                                                      \
    int(Handle, Operation, Layout, Layout, Layout, Layout, Preference, int, Heuristic *, int *))                       \
  X(matmul, cublasLtMatmul,                                                                                            \
    int(Handle, Operation, const void *, const void *, Layout, const void *, Layout, const void *, const void *,       \
        Layout, void *, Layout, const Algorithm *, void *, size_t, cuda::StreamHandle))

/// The names of supported versions, best first for a driver (Driver::version()): a library of a later CUDA may refuse
/// the driver.
std::vector<const char *> namesFor(int driverVersion);

/// Loaded for as long as the process lives: NVIDIA's libraries do not like to go.
class Library : NotCopied {
public:
  /// Loads the first that works with the driver. Throws Error (Runtime) if there is none, with what is wrong with each.
  explicit Library(std::span<const char *const> names);
  ~Library();

  DTC_CUBLASLT_FUNCTIONS(DTC_VENDOR_FUNCTION)

  /// The library's state on the device whose context was current.
  Handle handle() const { return state; }

  /// Throws Error (Runtime) unless `status` is success. `what`: "cannot multiply matrices".
  void check(int status, const std::string &what) const;

  /// 10000 * major + 100 * minor + patch, for CUDA 12 and 13.
  static constexpr size_t OldestVersion = 120000, NewestVersion = 139999;

private:
  void load(const char *name);

  Handle state = nullptr;
};

} // namespace dtc::cublaslt
