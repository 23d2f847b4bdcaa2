// What an operation says about itself. Passes ask these interfaces and never an operation's name; an operation lacking
// one that a pass needs is an error naming the interface.
#ifndef DT_INTERFACES_TD
#define DT_INTERFACES_TD

include "mlir/IR/OpBase.td"

def DT_FactorOpInterface : OpInterface<"FactorOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = [{
    The operation's factors: an einsum-like rule that says which loop dimension appears in which operand and result
    dimension. Propagation, partitioning and cost are generic over it. See dialect/IR/Factors.h.
  }];
  let methods = [
    InterfaceMethod<"The rule.", "::mlir::dt::FactorRule", "getFactorRule">,
    InterfaceMethod<[{
      How the results depend on operand `operand`, for values that are partial sums:
      Nonlinear: it must be whole. Multilinear: the results are linear in it with the other operands fixed, so a partial
      operand makes partial results. Additive: the results are linear in all Additive operands together, so either all
      of them are partial over the same axes or none.}],
      "::mlir::dt::Linearity", "getLinearity", (ins "unsigned":$operand), "",
      "return ::mlir::dt::Linearity::Nonlinear;">,
    InterfaceMethod<[{
      Builds the operation on one rank's pieces. The default clones it onto the local operands and types; operations
      whose meaning depends on the place of an element in the whole tensor record their sharding.}],
      "::mlir::Operation *", "buildLocal",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands, "::mlir::TypeRange":$results,
           "::llvm::ArrayRef<::mlir::dt::ShardingAttr>":$operandShardings,
           "::llvm::ArrayRef<::mlir::dt::ShardingAttr>":$resultShardings), "",
      "return ::mlir::dt::cloneOnto($_op, builder, operands, results);">,
    InterfaceMethod<[{
      Builds the operation on a part of its operands and results: the elements from `offset` on along factor `factor`,
      which is parallel. Null where the meaning depends on an element's position along the factor, and a part cannot say
      where it begins. The default clones it.}],
      "::mlir::Operation *", "buildPart",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands, "::mlir::TypeRange":$results,
           "int":$factor, "int64_t":$offset), "",
      "return ::mlir::dt::cloneOnto($_op, builder, operands, results);">,
    InterfaceMethod<"What buildLocal recorded; null where the meaning does not depend on a position.",
      "::mlir::dt::ShardingAttr", "getRecordedSharding", (ins), "",
      "return $_op->template getAttrOfType<::mlir::dt::ShardingAttr>(\"sharding\");">,
  ];
}

def DT_DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = "Reverse-mode differentiation.";
  let methods = [
    InterfaceMethod<[{
      Appends, for each operand, the gradient that flows to it, or null where none does (integers, masks).
      `resultGradients` has one value a result, null where that result's gradient is zero.}],
      "::llvm::LogicalResult", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$resultGradients,
           "::llvm::SmallVectorImpl<::mlir::Value> &":$operandGradients)>,
  ];
}

def DT_ReferenceOpInterface : OpInterface<"ReferenceOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = [{
    The operation's meaning, written to be read; see dialect/reference/. This is one rank's view: the interpreter itself
    evaluates collectives, which need the other ranks.
  }];
  let methods = [
    InterfaceMethod<"Appends the results' values.", "::llvm::LogicalResult", "evaluate",
      (ins "::llvm::ArrayRef<::mlir::dt::HostTensor>":$operands, "const ::mlir::dt::RankContext &":$rank,
           "::llvm::SmallVectorImpl<::mlir::dt::HostTensor> &":$results)>,
  ];
}

def DT_ElementwiseOpInterface : OpInterface<"ElementwiseOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = [{
    One scalar function applied at every index: reference semantics, factors, cost and kernel code all follow from it.
  }];
  let methods = [
    InterfaceMethod<"The scalar function. Integers and masks travel as doubles.", "double", "evaluateElement",
      (ins "::llvm::ArrayRef<double>":$operands)>,
    InterfaceMethod<[{
      Emits arith and math operations that compute it on vectors (or scalars) of the element types; `resultType` is the
      vector (or scalar) type to produce.}], "::mlir::Value", "emitElement",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::ValueRange":$operands,
           "::mlir::Type":$resultType)>,
    InterfaceMethod<[{
      A bound on how far that code's result, in f32, lies from the exact `result` of these operands; cancellation in
      sums is the caller's concern. The default is four units in the last place.}], "double", "getCodeError",
      (ins "::llvm::ArrayRef<double>":$operands, "double":$result), "", "return std::abs(result) * 0x1p-21;">,
  ];
}

def DT_DecomposableOpInterface : OpInterface<"DecomposableOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = "A composite that is rewritten as primitives once gradients have been taken.";
  let methods = [
    InterfaceMethod<"Values equal to the results, built before the operation.",
      "::llvm::SmallVector<::mlir::Value>", "decompose", (ins "::mlir::OpBuilder &":$builder)>,
  ];
}

def DT_EvaluationOpInterface : OpInterface<"EvaluationOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = "Behaves differently when a trained model is evaluated than in training, as dropout does.";
  let methods = [
    InterfaceMethod<"Values of the results when evaluating, built before the operation; an operand may serve.",
      "::llvm::SmallVector<::mlir::Value>", "buildEvaluation", (ins "::mlir::OpBuilder &":$builder)>,
  ];
}

def DT_PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = [{
    May be computed in 16 bits where the policy says so (dt-choose-precision). An operation without it is computed in
    f32 whatever the policy: norms, softmax and losses, exponentials, quotients. See dialect/IR/Precision.h.
  }];
  let methods = [
    InterfaceMethod<"Which type it is computed in.", "::mlir::dt::Precision", "getPrecision", (ins), "",
      "return ::mlir::dt::Precision::AsOperands;">,
    InterfaceMethod<"Whether result number `result` takes the operands' type; others, statistics, stay f32.", "bool",
      "narrowsResult", (ins "unsigned":$result), "", "return true;">,
    InterfaceMethod<[{
      Whether the results may be f32 while the operands are narrower: they are sums, formed in f32 anyway.}],
      "bool", "canWidenResults", (ins), "", "return false;">,
  ];
}

def DT_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = "Work of one execution, on the shapes as they stand.";
  let methods = [
    InterfaceMethod<"Floating-point operations; a multiply-add counts two.", "double", "getFlops">,
    InterfaceMethod<"Bytes of operand `operand` that are read.", "double", "getBytesRead", (ins "unsigned":$operand), "",
      "return ::mlir::dt::storedBytes($_op->getOperand(operand).getType());">,
    InterfaceMethod<"Bytes that are written, of all results.", "double", "getBytesWritten", (ins), "",
      "return ::mlir::dt::resultBytes($_op);">,
    InterfaceMethod<"What its time depends on.", "::mlir::dt::WorkClass", "getWorkClass", (ins), "",
      "return ::mlir::dt::WorkClass::Elementwise;">,
  ];
}

def DT_LibraryOpInterface : OpInterface<"LibraryOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = [{
    Lowers to one call of a library kernel (runtime/abi/library), possibly on strided views. See
    dialect/IR/Library.h.
  }];
  let methods = [
    InterfaceMethod<[{
      The call, given how each operand and then each result lies in memory. Fails with an error on the operation when a
      layout cannot be served.}], "::llvm::FailureOr<::mlir::dt::LibraryCall>", "getLibraryCall",
      (ins "::llvm::ArrayRef<::mlir::dt::StridedLayout>":$layouts, "::mlir::dt::MeshAttr":$mesh)>,
    InterfaceMethod<"Whether operand or result number `index` (operands first) may be a strided view.", "bool",
      "acceptsStrided", (ins "unsigned":$index), "", "return false;">,
    InterfaceMethod<"The operand that result `result` may overwrite in place, or -1.", "int", "getInPlaceOperand",
      (ins "unsigned":$result), "", "return -1;">,
    InterfaceMethod<"Whether result `result` needs the operand's old contents (accumulates) when in place.", "bool",
      "mustBeInPlace", (ins "unsigned":$result), "", "return false;">,
    InterfaceMethod<"Whether operand `operand` must lie at a multiple of what generated kernels expect.", "bool",
      "mustBeAligned", (ins "unsigned":$operand), "", "return false;">,
  ];
}

def DT_ProductOpInterface : OpInterface<"ProductOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = "A product that a target's library may process further before it stores the result.";
  let methods = [
    InterfaceMethod<[{
      The same product with an epilogue that reads `other`, of that result type. A second result has the same type. The
      result may be invalid: its getLibraryCall fails then.}], "::mlir::Operation *", "buildWithEpilogue",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::RankedTensorType":$type, "::dtc::abi::Epilogue":$epilogue,
           "::mlir::Value":$other)>,
  ];
}

def DT_EpilogueOpInterface : OpInterface<"EpilogueOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = [{
    An operation that a library may apply to a product before it stores the result. See EpilogueStep in
    dialect/IR/Library.h.
  }];
  let methods = [
    InterfaceMethod<"What this does with `product`, an operand; nothing where it is none of these steps.",
      "std::optional<::mlir::dt::EpilogueStep>", "getEpilogueStep", (ins "::mlir::Value":$product)>,
  ];
}

def DT_MemoryFormOpInterface : OpInterface<"MemoryFormOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = "Is rewritten as operations that work in place once tensors have places in memory.";
  let methods = [
    InterfaceMethod<"A value equal to the result, built before the operation.", "::mlir::Value", "buildInMemory",
      (ins "::mlir::OpBuilder &":$builder)>,
  ];
}

def DT_FusibleOpInterface : OpInterface<"FusibleOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = [{
    May run in one kernel with its neighbours, and is cheap to repeat, like every ElementwiseOpInterface. An operation
    that is neither elementwise, nor a reduction, nor indexed passes its operand's elements on, or is a constant. See
    passes/lower/kernels/KernelPlan.h.
  }];
  let methods = [
    InterfaceMethod<"Whether this one may, with its types and attributes.", "bool", "canBeFused", (ins), "",
      "return true;">,
    InterfaceMethod<[{
      The result's dimension that each dimension of operand `operand` stands along; nothing for an operand that is read
      whole whatever the index. Reductions say which dimensions disappear instead.}],
      "std::optional<::llvm::SmallVector<int64_t>>", "getOperandDims", (ins "unsigned":$operand), "",
      "return ::mlir::dt::identityDims($_op->getOperand(operand));">,
  ];
}

def DT_ReductionOpInterface : OpInterface<"ReductionOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = "Combines the elements of its operand along some dimensions, which disappear.";
  let methods = [
    InterfaceMethod<"How.", "::mlir::dt::ReductionKind", "getReductionKind">,
    InterfaceMethod<"Along which, in order.", "::llvm::ArrayRef<int64_t>", "getReducedDims">,
  ];
}

def DT_IndexedOpInterface : OpInterface<"IndexedOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = [{
    Each element is a function of one number, which grows along the dimensions by fixed strides from an origin that
    says which piece of the whole tensor this is. Generated kernels keep the number; see dialect/IR/KernelCode.h.
  }];
  let methods = [
    InterfaceMethod<"By how much the number grows along each dimension of the result.",
      "::llvm::SmallVector<int64_t>", "getIndexStrides">,
    InterfaceMethod<[{
      What each launch passes: arguments rather than constants, so that ranks, layers and sites share code.}],
      "::llvm::SmallVector<::mlir::dt::LaunchScalar>", "getIndexScalars">,
    InterfaceMethod<"Code that runs once a call.", "::mlir::dt::IndexedCode", "emitOnce",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "const ::mlir::dt::KernelCall &":$call)>,
    InterfaceMethod<[{
      The elements of numbers first, first + stride, ... (`first` is a 64-bit integer): as many as the vector `type`
      has, or one where it is a scalar.}], "::mlir::Value", "emitIndexed",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "const ::mlir::dt::IndexedCode &":$once,
           "::mlir::Value":$first, "int64_t":$stride, "::mlir::Type":$type)>,
    InterfaceMethod<"The reference meaning: the element with number `number`, counted from the piece's first element.",
      "double", "evaluateNumber", (ins "::llvm::ArrayRef<::mlir::dt::HostTensor>":$operands,
                                       "const ::mlir::dt::RankContext &":$rank, "int64_t":$number)>,
  ];
}

def DT_SitedOpInterface : OpInterface<"SitedOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = "Keyed by a place in the model, so that two places differ.";
  let methods = [
    InterfaceMethod<"The place's number, or within a dt.kernel the number of one of the launch's sites.", "uint64_t",
      "getSite">,
    InterfaceMethod<"Sets another place.", "void", "setSite", (ins "uint64_t":$site)>,
  ];
}

def DT_ViewOpInterface : OpInterface<"ViewOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = [{
    Moves no data where memory allows: the result is another view of the operand's buffer (forward), or the operands are
    written straight into the result's buffer (backward).
  }];
  let methods = [
    InterfaceMethod<"How the result lies in a buffer that holds the operand so; nothing if it must be copied.",
      "std::optional<::mlir::dt::StridedView>", "getResultView", (ins "const ::mlir::dt::StridedLayout &":$operand), "",
      "return std::nullopt;">,
    InterfaceMethod<"How each operand lies in a buffer that holds the result so; empty if they must be copied.",
      "::llvm::SmallVector<::mlir::dt::StridedView, 1>", "getOperandViews",
      (ins "const ::mlir::dt::StridedLayout &":$result), "", "return {};">,
  ];
}

def DT_CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = [{
    Moves data between the ranks that differ only in the given axes. The result is a tensor, or a future of one that a
    `dt.wait` turns into the tensor.
  }];
  let methods = [
    InterfaceMethod<"The axes, major to minor.", "::llvm::SmallVector<::mlir::dt::AxisRefAttr>", "getCollectiveAxes">,
    InterfaceMethod<"Whether it maps a sum of operands to the sum of their results.", "bool", "isLinear", (ins), "",
      "return true;">,
    InterfaceMethod<"Indices over the axes of the ranks that take part, ascending; empty: all.",
      "::llvm::ArrayRef<int32_t>", "getGroupMembers", (ins), "", "return {};">,
    InterfaceMethod<"The tensor type of the result, future or not.", "::mlir::RankedTensorType", "getValueType">,
    InterfaceMethod<[{
      The operation's meaning: the result on member `me` of a group, given every member's operand in group order.}],
      "::mlir::dt::HostTensor", "evaluateGroup",
      (ins "::llvm::ArrayRef<::mlir::dt::HostTensor>":$members, "int64_t":$me)>,
    InterfaceMethod<"What is moved, as rows of contiguous elements.", "::mlir::dt::CollectiveShape",
      "getCollectiveShape">,
    InterfaceMethod<"Whether the result may take over the operand's buffer.", "bool", "canBeInPlace", (ins), "",
      "return false;">,
    InterfaceMethod<"The same collective with the given result type.", "::mlir::Operation *", "cloneWithType",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Type":$type), "",
      "return ::mlir::dt::cloneOnto($_op, builder, $_op->getOperands(), type);">,
  ];
}

def DT_HostCopyOpInterface : OpInterface<"HostCopyOpInterface"> {
  let cppNamespace = "::mlir::dt";
  let description = [{
    Copies a tensor from the device's memory to the host's, or back. The result is a tensor, or a future of one that a
    `dt.wait` turns into the tensor. Nothing else reads what is in the host's memory.
  }];
  let methods = [
    InterfaceMethod<"Whether the result is in the host's memory; otherwise the operand is.", "bool", "isToHost">,
    InterfaceMethod<"The same copy with the given result type.", "::mlir::Operation *", "cloneWithType",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Type":$type), "",
      "return ::mlir::dt::cloneOnto($_op, builder, $_op->getOperands(), type);">,
  ];
}

#endif // DT_INTERFACES_TD
