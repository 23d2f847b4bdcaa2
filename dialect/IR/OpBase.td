// What the operations of dt share.
#ifndef DT_OPBASE_TD
#define DT_OPBASE_TD

include "dialect/IR/Attributes.td"
include "dialect/IR/Interfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// The element types of runtime/abi/element_type.h. As yet i8 is only moved; kernels compute in f32, i32 and masks, and
// lowering refuses other types (passes/lower/kernels/KernelPlan.h).
def DT_Tensor : StaticShapeTensorOf<[F32, BF16, F16, I32, I8, I1]>;
def DT_NumberTensor : StaticShapeTensorOf<[F32, BF16, F16, I32, I1]>;
def DT_FloatTensor : StaticShapeTensorOf<[F32, BF16, F16]>;
def DT_IntTensor : StaticShapeTensorOf<[I32]>;
def DT_MaskTensor : StaticShapeTensorOf<[I1]>;

def DT_TensorOrFuture : AnyTypeOf<[DT_Tensor, DT_FutureType]>;

class DT_Op<string mnemonic, list<Trait> traits = []> : Op<DT_Dialect, mnemonic, traits>;

// What reads the result is recomputed, so it is computed late and joins no earlier kernel.
def DT_SeparatesKernels : NativeOpTrait<"SeparatesKernels"> { let cppNamespace = "::mlir::dt"; }

// The result shares the operand's memory: it is the same tensor, at a later time.
def DT_Waits : NativeOpTrait<"Waits"> { let cppNamespace = "::mlir::dt"; }

def DT_Factor : DeclareOpInterfaceMethods<DT_FactorOpInterface>;
def DT_FactorLinear : DeclareOpInterfaceMethods<DT_FactorOpInterface, ["getLinearity"]>;
def DT_FactorPlaced : DeclareOpInterfaceMethods<DT_FactorOpInterface, ["buildLocal", "buildPart"]>;
def DT_FactorLinearPlaced : DeclareOpInterfaceMethods<DT_FactorOpInterface, ["getLinearity", "buildLocal", "buildPart"]>;
def DT_Differentiable : DeclareOpInterfaceMethods<DT_DifferentiableOpInterface>;
def DT_Reference : DeclareOpInterfaceMethods<DT_ReferenceOpInterface>;
def DT_Precision : DeclareOpInterfaceMethods<DT_PrecisionOpInterface>;
def DT_PrecisionNarrow : DeclareOpInterfaceMethods<DT_PrecisionOpInterface, ["getPrecision", "narrowsResult", "canWidenResults"]>;
def DT_PrecisionSum : DeclareOpInterfaceMethods<DT_PrecisionOpInterface, ["canWidenResults"]>;
def DT_Cost : DeclareOpInterfaceMethods<DT_CostOpInterface>;
def DT_CostOfClass : DeclareOpInterfaceMethods<DT_CostOpInterface, ["getWorkClass"]>;
def DT_CostOfPart : DeclareOpInterfaceMethods<DT_CostOpInterface, ["getBytesRead"]>;
def DT_CostOfRows : DeclareOpInterfaceMethods<DT_CostOpInterface, ["getWorkClass", "getBytesRead"]>;
def DT_CostInPlace : DeclareOpInterfaceMethods<DT_CostOpInterface, ["getWorkClass", "getBytesRead", "getBytesWritten"]>;
def DT_Elementwise : DeclareOpInterfaceMethods<DT_ElementwiseOpInterface>;
def DT_ElementwiseInexact : DeclareOpInterfaceMethods<DT_ElementwiseOpInterface, ["getCodeError"]>;
def DT_Decomposable : DeclareOpInterfaceMethods<DT_DecomposableOpInterface>;
def DT_Evaluation : DeclareOpInterfaceMethods<DT_EvaluationOpInterface>;
def DT_Library : DeclareOpInterfaceMethods<DT_LibraryOpInterface>;
def DT_LibraryStrided : DeclareOpInterfaceMethods<DT_LibraryOpInterface, ["acceptsStrided"]>;
def DT_LibraryInPlace : DeclareOpInterfaceMethods<DT_LibraryOpInterface, ["acceptsStrided", "getInPlaceOperand", "mustBeInPlace"]>;
def DT_LibraryAligned : DeclareOpInterfaceMethods<DT_LibraryOpInterface, ["acceptsStrided", "getInPlaceOperand", "mustBeAligned"]>;
def DT_Product : DeclareOpInterfaceMethods<DT_ProductOpInterface>;
def DT_Epilogue : DeclareOpInterfaceMethods<DT_EpilogueOpInterface>;
def DT_MemoryForm : DeclareOpInterfaceMethods<DT_MemoryFormOpInterface>;
def DT_Fusible : DeclareOpInterfaceMethods<DT_FusibleOpInterface>;
def DT_FusibleSometimes : DeclareOpInterfaceMethods<DT_FusibleOpInterface, ["canBeFused"]>;
def DT_FusibleAlong : DeclareOpInterfaceMethods<DT_FusibleOpInterface, ["getOperandDims"]>;
def DT_Reduction : DeclareOpInterfaceMethods<DT_ReductionOpInterface>;
def DT_Indexed : DeclareOpInterfaceMethods<DT_IndexedOpInterface>;
def DT_ForwardView : DeclareOpInterfaceMethods<DT_ViewOpInterface, ["getResultView"]>;
def DT_BackwardView : DeclareOpInterfaceMethods<DT_ViewOpInterface, ["getOperandViews"]>;
def DT_View : DeclareOpInterfaceMethods<DT_ViewOpInterface, ["getResultView", "getOperandViews"]>;
def DT_Collective : DeclareOpInterfaceMethods<DT_CollectiveOpInterface>;
def DT_HostCopy : DeclareOpInterfaceMethods<DT_HostCopyOpInterface>;
def DT_CollectiveMembers : DeclareOpInterfaceMethods<DT_CollectiveOpInterface, ["canBeInPlace", "getGroupMembers", "isLinear"]>;
def DT_CollectiveReducing : DeclareOpInterfaceMethods<DT_CollectiveOpInterface, ["isLinear"]>;

#endif // DT_OPBASE_TD
