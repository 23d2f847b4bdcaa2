// The functions of NVIDIA's library of fused kernels that dtc uses: its graph interface, declared here and looked up
// when a program starts, like the driver's (driver.h). Names and numbers are those of cudnn_graph.h;
// test/gpu/cudnn_header_test.cpp compares them with it.
#pragma once

#include "runtime/device/cuda/driver.h"
#include "runtime/support/not_copied.h"
#include "runtime/support/vendor_functions.h"

#include <cstddef>
#include <cstdint>
#include <string>

struct cudnnContext;

namespace dtc::cudnn {

using Handle = cudnnContext *;
/// An opaque descriptor of a tensor, an operation, a graph or a plan.
using Descriptor = void *;

/// cudnnStatus_t: only the values that dtc uses. The thousands are kinds of errors.
enum Status : int {
  Success = 0,
  NotInitialized = 1001,
  BadParameter = 2000,
  NotFinalized = 2004,
  NotSupported = 3000,
  ExecutionFailed = 5000,
};

/// cudnnDataType_t.
enum DataType : int { Float = 0, Half = 2, Int32 = 4, BFloat16 = 9, Boolean = 11 };

/// cudnnPointwiseMode_t.
enum PointwiseMode : int {
  Multiply = 1,
  Divide = 6,
  Add = 0,
  Subtract = 9,
  Exponential = 13,
  Logarithm = 15,
  Identity = 21,
  GreaterOrEqual = 303,
  GenerateIndex = 501,
  Select = 601,
};

/// cudnnReduceTensorOp_t.
enum Reduction : int { ReduceSum = 0, ReduceLargest = 3 };

/// cudnnBackendHeurMode_t.
enum HeuristicMode : int { HeuristicFallback = 2, HeuristicA = 3 };

/// cudnnBackendNumericalNote_t: an engine that has it may give different bits each time.
enum NumericalNote : int { NotDeterministic = 4, NoteCount = 10 };

/// cudnnBackendDescriptorType_t.
enum DescriptorType : int {
  PointwiseDescriptor = 0,
  EngineDescriptor = 2,
  EngineConfigDescriptor = 3,
  EngineHeuristicsDescriptor = 4,
  PlanDescriptor = 5,
  PointwiseOperationDescriptor = 13,
  GraphDescriptor = 15,
  VariantPackDescriptor = 16,
  TensorDescriptor = 17,
  MatmulDescriptor = 18,
  MatmulOperationDescriptor = 19,
  ReductionDescriptor = 21,
  ReductionOperationDescriptor = 22,
  ReshapeOperationDescriptor = 31,
  DevicePropertiesDescriptor = 38,
};

/// cudnnBackendAttributeName_t.
enum Attribute : int {
  PointwiseModeAttribute = 0,
  PointwisePrecision = 1,
  PointwiseAxis = 9,
  HeuristicsMode = 200,
  HeuristicsGraph = 201,
  HeuristicsResults = 202,
  HeuristicsDevice = 204,
  ConfigEngine = 300,
  PlanHandle = 400,
  PlanConfig = 401,
  PlanWorkspaceBytes = 402,
  PlanDevice = 407,
  PointwiseOperation = 750,
  PointwiseX = 751,
  PointwiseB = 752,
  PointwiseY = 753,
  PointwiseT = 758,
  GraphHandle = 800,
  GraphOperations = 801,
  TensorAlignment = 900,
  TensorType = 901,
  TensorSizes = 902,
  TensorStrides = 903,
  TensorNumber = 906,
  TensorIsVirtual = 907,
  TensorIsByValue = 908,
  PackNumbers = 1000,
  PackAddresses = 1001,
  PackWorkspace = 1003,
  EngineNotes = 1303,
  MatmulPrecision = 1500,
  MatmulA = 1520,
  MatmulB = 1521,
  MatmulC = 1522,
  MatmulOperation = 1523,
  ReductionOperator = 1600,
  ReductionPrecision = 1601,
  ReductionX = 1610,
  ReductionY = 1611,
  ReductionOperation = 1612,
  ReshapeX = 2200,
  ReshapeY = 2201,
  DeviceText = 2702,
};

/// cudnnBackendAttributeType_t.
enum AttributeType : int {
  HandleType = 0,
  DataTypeType = 1,
  BooleanType = 2,
  Int64Type = 3,
  AddressType = 6,
  HeuristicModeType = 8,
  NumericalNoteType = 11,
  PointwiseModeType = 14,
  DescriptorsType = 15,
  ReductionType = 18,
  CharacterType = 24,
};

// Rows as in vendor_functions.h. cudnnStatus_t and other enumerations are int here: so they are passed.
#define DTC_CUDNN_FUNCTIONS(X)                                                                                         \
  X(getVersion, cudnnGetVersion, size_t())                                                                             \
  X(getErrorString, cudnnGetErrorString, const char *(int))                                                            \
  X(getLastErrorString, cudnnGetLastErrorString, void(char *, size_t))                                                 \
  X(create, cudnnCreate, int(Handle *))                                                                                \
  X(destroy, cudnnDestroy, int(Handle))                                                                                \
  X(setStream, cudnnSetStream, int(Handle, cuda::StreamHandle))                                                        \
  X(descriptorCreate, cudnnBackendCreateDescriptor, int(int, Descriptor *))                                            \
  X(descriptorDestroy, cudnnBackendDestroyDescriptor, int(Descriptor))                                                 \
  X(descriptorFinalize, cudnnBackendFinalize, int(Descriptor))                                                         \
  X(descriptorSet, cudnnBackendSetAttribute, int(Descriptor, int, int, int64_t, const void *))                         \
  X(descriptorGet, cudnnBackendGetAttribute, int(Descriptor, int, int, int64_t, int64_t *, void *))                    \
  X(execute, cudnnBackendExecute, int(Handle, Descriptor, Descriptor))

class Library : NotCopied {
public:
  static constexpr const char *Name = "libcudnn.so.9";

  /// Throws Error (Runtime) if there is none of that name or its version is not supported.
  explicit Library(const char *name = Name);

  DTC_CUDNN_FUNCTIONS(DTC_VENDOR_FUNCTION)

  /// Throws Error (Runtime) with the library's message unless `status` is success. `what`: "cannot describe a tensor".
  void check(int status, const char *what) const;

  std::string versionText() const;

  /// 10000 * major + 100 * minor + patch. Earlier versions need help with key counts that are not a multiple of 128, or
  /// have bugs in attention's gradient that NVIDIA lists.
  static constexpr size_t OldestVersion = 91600;
};

} // namespace dtc::cudnn
