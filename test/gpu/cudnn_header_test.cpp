// The declarations of runtime/kernels/cuda/cudnn.h agree with cuDNN's own header. Built where that is installed.
#include "runtime/kernels/cuda/cudnn.h"

#include "test/gpu/alike.h"

#include <cudnn_graph.h>

#include <gtest/gtest.h>

namespace dtc::cudnn {
namespace {

using test::same;

static_assert(same(Success, CUDNN_STATUS_SUCCESS) && same(NotInitialized, CUDNN_STATUS_NOT_INITIALIZED) &&
              same(BadParameter, CUDNN_STATUS_BAD_PARAM) && same(NotFinalized, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED) &&
              same(NotSupported, CUDNN_STATUS_NOT_SUPPORTED) && same(ExecutionFailed, CUDNN_STATUS_EXECUTION_FAILED));
static_assert(same(Float, CUDNN_DATA_FLOAT) && same(Half, CUDNN_DATA_HALF) && same(Int32, CUDNN_DATA_INT32) &&
              same(BFloat16, CUDNN_DATA_BFLOAT16) && same(Boolean, CUDNN_DATA_BOOLEAN));
static_assert(same(Multiply, CUDNN_POINTWISE_MUL) && same(Divide, CUDNN_POINTWISE_DIV) &&
              same(Add, CUDNN_POINTWISE_ADD) && same(Subtract, CUDNN_POINTWISE_SUB) &&
              same(Exponential, CUDNN_POINTWISE_EXP) && same(Logarithm, CUDNN_POINTWISE_LOG) &&
              same(Identity, CUDNN_POINTWISE_IDENTITY) && same(GreaterOrEqual, CUDNN_POINTWISE_CMP_GE) &&
              same(GenerateIndex, CUDNN_POINTWISE_GEN_INDEX) && same(Select, CUDNN_POINTWISE_BINARY_SELECT));
static_assert(same(ReduceSum, CUDNN_REDUCE_TENSOR_ADD) && same(ReduceLargest, CUDNN_REDUCE_TENSOR_MAX));
static_assert(same(HeuristicFallback, CUDNN_HEUR_MODE_FALLBACK) && same(HeuristicA, CUDNN_HEUR_MODE_A));
static_assert(same(NotDeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) &&
              int(NoteCount) >= int(CUDNN_NUMERICAL_NOTE_TYPE_COUNT));

static_assert(same(PointwiseDescriptor, CUDNN_BACKEND_POINTWISE_DESCRIPTOR) &&
              same(EngineDescriptor, CUDNN_BACKEND_ENGINE_DESCRIPTOR) &&
              same(EngineConfigDescriptor, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) &&
              same(EngineHeuristicsDescriptor, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) &&
              same(PlanDescriptor, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) &&
              same(PointwiseOperationDescriptor, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) &&
              same(GraphDescriptor, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) &&
              same(VariantPackDescriptor, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) &&
              same(TensorDescriptor, CUDNN_BACKEND_TENSOR_DESCRIPTOR) &&
              same(MatmulDescriptor, CUDNN_BACKEND_MATMUL_DESCRIPTOR) &&
              same(MatmulOperationDescriptor, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) &&
              same(ReductionDescriptor, CUDNN_BACKEND_REDUCTION_DESCRIPTOR) &&
              same(ReductionOperationDescriptor, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) &&
              same(ReshapeOperationDescriptor, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) &&
              same(DevicePropertiesDescriptor, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR));

static_assert(same(PointwiseModeAttribute, CUDNN_ATTR_POINTWISE_MODE) &&
              same(PointwisePrecision, CUDNN_ATTR_POINTWISE_MATH_PREC) &&
              same(PointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS) &&
              same(PointwiseOperation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR) &&
              same(PointwiseX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC) &&
              same(PointwiseB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC) &&
              same(PointwiseY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC) &&
              same(PointwiseT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC));
static_assert(same(HeuristicsMode, CUDNN_ATTR_ENGINEHEUR_MODE) &&
              same(HeuristicsGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH) &&
              same(HeuristicsResults, CUDNN_ATTR_ENGINEHEUR_RESULTS) &&
              same(HeuristicsDevice, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP) &&
              same(ConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE) && same(EngineNotes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE));
static_assert(same(PlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE) &&
              same(PlanConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) &&
              same(PlanWorkspaceBytes, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) &&
              same(PlanDevice, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP) &&
              same(GraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE) &&
              same(GraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS) &&
              same(DeviceText, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION));
static_assert(same(TensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) &&
              same(TensorType, CUDNN_ATTR_TENSOR_DATA_TYPE) && same(TensorSizes, CUDNN_ATTR_TENSOR_DIMENSIONS) &&
              same(TensorStrides, CUDNN_ATTR_TENSOR_STRIDES) && same(TensorNumber, CUDNN_ATTR_TENSOR_UNIQUE_ID) &&
              same(TensorIsVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
              same(TensorIsByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE));
static_assert(same(PackNumbers, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) &&
              same(PackAddresses, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS) &&
              same(PackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE));
static_assert(same(MatmulPrecision, CUDNN_ATTR_MATMUL_COMP_TYPE) && same(MatmulA, CUDNN_ATTR_OPERATION_MATMUL_ADESC) &&
              same(MatmulB, CUDNN_ATTR_OPERATION_MATMUL_BDESC) && same(MatmulC, CUDNN_ATTR_OPERATION_MATMUL_CDESC) &&
              same(MatmulOperation, CUDNN_ATTR_OPERATION_MATMUL_DESC));
static_assert(same(ReductionOperator, CUDNN_ATTR_REDUCTION_OPERATOR) &&
              same(ReductionPrecision, CUDNN_ATTR_REDUCTION_COMP_TYPE) &&
              same(ReductionX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC) &&
              same(ReductionY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC) &&
              same(ReductionOperation, CUDNN_ATTR_OPERATION_REDUCTION_DESC) &&
              same(ReshapeX, CUDNN_ATTR_OPERATION_RESHAPE_XDESC) && same(ReshapeY, CUDNN_ATTR_OPERATION_RESHAPE_YDESC));

static_assert(same(HandleType, CUDNN_TYPE_HANDLE) && same(DataTypeType, CUDNN_TYPE_DATA_TYPE) &&
              same(BooleanType, CUDNN_TYPE_BOOLEAN) && same(Int64Type, CUDNN_TYPE_INT64) &&
              same(AddressType, CUDNN_TYPE_VOID_PTR) && same(HeuristicModeType, CUDNN_TYPE_HEUR_MODE) &&
              same(NumericalNoteType, CUDNN_TYPE_NUMERICAL_NOTE) &&
              same(PointwiseModeType, CUDNN_TYPE_POINTWISE_MODE) &&
              same(DescriptorsType, CUDNN_TYPE_BACKEND_DESCRIPTOR) &&
              same(ReductionType, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE) && same(CharacterType, CUDNN_TYPE_CHAR));

DTC_CUDNN_FUNCTIONS(DTC_ALIKE)

TEST(CudnnHeader, SaysWhatWeSay) { EXPECT_GE(size_t(CUDNN_VERSION), Library::OldestVersion); }

} // namespace
} // namespace dtc::cudnn
