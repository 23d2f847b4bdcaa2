// The declarations of runtime/kernels/cuda/cublaslt.h agree with cuBLASLt's own header. Built where that is installed.
#include "runtime/kernels/cuda/cublaslt.h"

#include "test/gpu/alike.h"

#include <cublasLt.h>

#include <gtest/gtest.h>

#include <cstddef>

namespace dtc::cublaslt {
namespace {

using test::same;

static_assert(same(Success, CUBLAS_STATUS_SUCCESS) && same(NotInitialized, CUBLAS_STATUS_NOT_INITIALIZED) &&
              same(InvalidValue, CUBLAS_STATUS_INVALID_VALUE) &&
              same(ExecutionFailed, CUBLAS_STATUS_EXECUTION_FAILED) && same(NotSupported, CUBLAS_STATUS_NOT_SUPPORTED));
static_assert(same(R32F, CUDA_R_32F) && same(R16F, CUDA_R_16F) && same(R16BF, CUDA_R_16BF));
static_assert(same(Compute32F, CUBLAS_COMPUTE_32F) && same(ComputeTf32, CUBLAS_COMPUTE_32F_FAST_TF32));
static_assert(same(NotTransposed, CUBLAS_OP_N) && same(Transposed, CUBLAS_OP_T) &&
              sizeof(Transposition) == sizeof(int32_t));
static_assert(same(LayoutBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) &&
              same(LayoutBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET));
static_assert(same(OperationTransposeA, CUBLASLT_MATMUL_DESC_TRANSA) &&
              same(OperationTransposeB, CUBLASLT_MATMUL_DESC_TRANSB) &&
              same(OperationEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE) &&
              same(OperationBias, CUBLASLT_MATMUL_DESC_BIAS_POINTER) &&
              same(OperationAux, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER) &&
              same(OperationAuxLeading, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD));
static_assert(same(EpilogueNone, CUBLASLT_EPILOGUE_DEFAULT) && same(EpilogueBias, CUBLASLT_EPILOGUE_BIAS) &&
              same(EpilogueGeluBias, CUBLASLT_EPILOGUE_GELU_BIAS) &&
              same(EpilogueGeluAuxBias, CUBLASLT_EPILOGUE_GELU_AUX_BIAS) &&
              same(EpilogueGeluGradient, CUBLASLT_EPILOGUE_DGELU) && sizeof(Epilogue) == sizeof(uint32_t));
static_assert(same(PreferenceWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) &&
              same(PreferenceReductions, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) &&
              same(PreferenceAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES) &&
              same(PreferenceAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES) &&
              same(PreferenceAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES) &&
              same(PreferenceAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES));
static_assert(same(ReductionNone, CUBLASLT_REDUCTION_SCHEME_NONE) &&
              same(ReductionInF32, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(Heuristic) == sizeof(cublasLtMatmulHeuristicResult_t) &&
              offsetof(Heuristic, workspaceBytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) &&
              offsetof(Heuristic, status) == offsetof(cublasLtMatmulHeuristicResult_t, state));

DTC_CUBLASLT_FUNCTIONS(DTC_ALIKE)

TEST(CublasLtHeader, SaysWhatWeSay) { EXPECT_GE(size_t(CUBLAS_VERSION), Library::OldestVersion); }

} // namespace
} // namespace dtc::cublaslt
