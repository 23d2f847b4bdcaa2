// Constants, shapes, reductions and contractions.
#ifndef DT_STRUCTURAL_OPS_TD
#define DT_STRUCTURAL_OPS_TD

include "dialect/IR/OpBase.td"

def DT_ConstantOp : DT_Op<"constant", [Pure, DT_FusibleSometimes, ConstantLike, AllTypesMatch<["value", "result"]>, DT_FactorPlaced, DT_Differentiable, DT_Reference, DT_Cost, DT_Library]> {
  let summary = "A constant, usually a splat.";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs DT_Tensor:$result);
  let assemblyFormat = "$value attr-dict";
  let hasFolder = 1;
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::RankedTensorType":$type, "double":$splat)>];
  let extraClassDeclaration = [{
    /// The one value of a splat, or nothing.
    std::optional<double> getSplat();
  }];
}

def DT_IotaOp : DT_Op<"iota", [Pure, DT_Fusible, DT_Indexed, DT_FactorPlaced, DT_Differentiable, DT_Reference, DT_Cost]> {
  let summary = "Each element's index along one dimension of the whole tensor.";
  let description = [{
    On one rank's piece, `sharding` says how the dimensions of the whole tensor are cut, and the values are indices into
    the whole: local index + rank index in the dimension's axes * local size.
    C1: dim is a dimension of the result.
  }];
  let arguments = (ins I64Attr:$dim, OptionalAttr<DT_ShardingAttr>:$sharding);
  let results = (outs DT_IntTensor:$result);
  let assemblyFormat = "$dim (`sharded` $sharding^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def DT_RandomOp : DT_Op<"random", [Pure, DT_FusibleAlong, DT_Indexed, DT_SitedOpInterface, DT_FactorPlaced, DT_Differentiable, DT_Reference, DT_Cost]> {
  let summary = "Uniform numbers in [0, 1) from a key, a site and each element's index in the whole tensor.";
  let description = [{
    Element i of the whole tensor (row-major) is uniform(stream(key[0], key[1], site), i) of runtime/abi/random.h, where
    dimension 0 counts samples of the global batch: key[2] is added to its index. `global_shape` is the shape of the
    whole tensor within one micro-batch; on one rank's piece `sharding` says how it is cut. Within a dt.kernel `site` is
    a number into the launch's `sites`.
    C1: key has four elements. C2: global_shape has the result's rank.
  }];
  let arguments = (ins DT_IntTensor:$key, I64Attr:$site, DenseI64ArrayAttr:$global_shape,
                   OptionalAttr<DT_ShardingAttr>:$sharding);
  let results = (outs DT_FloatTensor:$result);
  let assemblyFormat = "$key `site` $site `of` $global_shape (`sharded` $sharding^)? attr-dict `:` type($key) `->` type($result)";
  let hasVerifier = 1;
}

def DT_BroadcastOp : DT_Op<"broadcast", [Pure, DT_FusibleAlong, DT_Precision, DT_FactorLinear, DT_Differentiable, DT_Reference, DT_Cost]> {
  let summary = "Repeats a tensor along new dimensions.";
  let description = [{
    Operand dimension i becomes result dimension dims[i]; the others are new.
    C1: dims is strictly increasing and within the result's rank. C2: sizes and element types agree.
  }];
  let arguments = (ins DT_Tensor:$operand, DenseI64ArrayAttr:$dims);
  let results = (outs DT_Tensor:$result);
  let assemblyFormat = "$operand `dims` $dims attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def DT_ReshapeOp : DT_Op<"reshape", [Pure, DT_Precision, DT_View, DT_FactorLinear, DT_Differentiable, DT_Reference, DT_Cost]> {
  let summary = "The same elements in row-major order under another shape.";
  let description = [{
    Dimensions fall into groups with equal products; only the first of a group's larger dimensions can stay split.
    C1: the numbers of elements agree.
  }];
  let arguments = (ins DT_Tensor:$operand);
  let results = (outs DT_Tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def DT_TransposeOp : DT_Op<"transpose", [Pure, DT_Precision, DT_View, DT_FactorLinear, DT_Differentiable, DT_Reference, DT_Cost]> {
  let summary = "Result dimension i is operand dimension permutation[i].";
  let description = "C1: a permutation of the operand's dimensions. C2: sizes agree.";
  let arguments = (ins DT_Tensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs DT_Tensor:$result);
  let assemblyFormat = "$operand `by` $permutation attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def DT_ReduceOp : DT_Op<"reduce", [Pure, DT_FusibleSometimes, DT_Reduction, DT_PrecisionSum, DT_FactorLinear, DT_Differentiable, DT_Reference, DT_CostOfClass]> {
  let summary = "Sum or maximum over some dimensions, which disappear.";
  let description = [{
    C1: dims is strictly increasing and within the operand's rank. C2: the result has the remaining dimensions and the
    operand's element type, or the one that sums of it are formed in. The maximum has no gradient.
  }];
  let arguments = (ins DT_ReductionKind:$kind, DT_NumberTensor:$operand, DenseI64ArrayAttr:$dims);
  let results = (outs DT_Tensor:$result);
  let assemblyFormat = "$kind $operand `over` $dims attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let builders = [OpBuilder<(ins "::mlir::dt::ReductionKind":$kind, "::mlir::Value":$operand, "::llvm::ArrayRef<int64_t>":$dims)>];
}

def DT_SliceOp : DT_Op<"slice", [Pure, DT_Precision, DT_ForwardView, DT_FactorLinear, DT_Differentiable, DT_Reference, DT_CostOfPart]> {
  let summary = "A box of a tensor: `sizes` elements from `offsets`.";
  let description = "C1: the box lies within the operand. C2: the result has shape sizes.";
  let arguments = (ins DT_Tensor:$operand, DenseI64ArrayAttr:$offsets);
  let results = (outs DT_Tensor:$result);
  let assemblyFormat = "$operand `at` $offsets attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def DT_PadOp : DT_Op<"pad", [Pure, DT_Precision, DT_MemoryForm, DT_FactorLinear, DT_Differentiable, DT_Reference, DT_Cost]> {
  let summary = "A tensor surrounded by zeros: the operand stands at `offsets`.";
  let description = "C1: the operand fits into the result at offsets.";
  let arguments = (ins DT_Tensor:$operand, DenseI64ArrayAttr:$offsets);
  let results = (outs DT_Tensor:$result);
  let assemblyFormat = "$operand `at` $offsets attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

def DT_ConcatOp : DT_Op<"concat", [Pure, DT_Precision, DT_BackwardView, DT_FactorLinear, DT_Differentiable, DT_Reference, DT_Cost]> {
  let summary = "Tensors laid end to end along one dimension.";
  let description = [{
    An operand of one rank less has no dimension `dim` and takes one place along it, as numbers do in a vector.
    C1: dim is a dimension of the result. C2: other sizes agree and sizes along dim add up.
  }];
  let arguments = (ins Variadic<DT_Tensor>:$operands, I64Attr:$dim);
  let results = (outs DT_Tensor:$result);
  let assemblyFormat = "$operands `along` $dim attr-dict `:` type($operands) `->` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The box of the result that operand `index` fills: its shape, with 1 along a dimension that it lacks.
    ::llvm::SmallVector<int64_t> getBoxShape(unsigned index);
  }];
}

def DT_ContractOp : DT_Op<"contract", [Pure, DT_PrecisionNarrow, DT_FactorLinear, DT_Differentiable, DT_Reference, DT_CostOfClass, DT_LibraryStrided, DT_Product]> {
  let summary = "Einsum of two tensors.";
  let description = [{
    `spec` names every dimension by a letter, as in "bsd,dhe->bshe": letters missing from the result are summed over.
    C1: spec has one letter for each dimension. C2: one letter, one size. C3: no letter twice in one operand or result,
    every result letter stands in an operand, every letter of an operand stands in the other or in the result. C4: the
    operands have one element type; the result has it too, or the one that sums of it are formed in.
  }];
  let arguments = (ins StrAttr:$spec, DT_FloatTensor:$lhs, DT_FloatTensor:$rhs);
  let results = (outs DT_FloatTensor:$result);
  let assemblyFormat = "$spec $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$spec, "::mlir::Value":$lhs, "::mlir::Value":$rhs)>];
}

def DT_GatherOp : DT_Op<"gather", [Pure, DT_Precision, DT_FactorLinearPlaced, DT_Differentiable, DT_Reference, DT_CostOfRows, DT_Library]> {
  let summary = "Rows of a table: result[i..., :] = table[indices[i...], :].";
  let description = [{
    `sharding` is the table's. Where it splits the rows, this piece holds rows from rank index * local rows on; an index
    outside the piece gives zeros, so that the pieces sum to the whole.
    C1: the table has two dimensions. C2: the result's shape is the indices' followed by the table's width.
  }];
  let arguments = (ins DT_FloatTensor:$table, DT_IntTensor:$indices, OptionalAttr<DT_ShardingAttr>:$sharding);
  let results = (outs DT_FloatTensor:$result);
  let assemblyFormat = "$table `,` $indices (`sharded` $sharding^)? attr-dict `:` type($table) `,` type($indices) `->` type($result)";
  let hasVerifier = 1;
}

def DT_ScatterAddOp : DT_Op<"scatter_add", [Pure, AllTypesMatch<["init", "result"]>, DT_FactorLinearPlaced, DT_Differentiable, DT_Reference, DT_CostInPlace, DT_LibraryInPlace]> {
  let summary = "init with updates added to its rows: result[indices[i...], :] += updates[i..., :].";
  let description = [{
    `sharding` is the table's (init's and the result's): indices outside the piece are skipped.
    C1: init has two dimensions and the result's type. C2: updates' shape is the indices' followed by init's width.
  }];
  let arguments = (ins DT_FloatTensor:$init, DT_IntTensor:$indices, DT_FloatTensor:$updates,
                   OptionalAttr<DT_ShardingAttr>:$sharding);
  let results = (outs DT_FloatTensor:$result);
  let assemblyFormat = "$init `,` $indices `,` $updates (`sharded` $sharding^)? attr-dict `:` type($init) `,` type($indices) `,` type($updates)";
  let hasVerifier = 1;
}

def DT_WriteRowsOp : DT_Op<"write_rows", [Pure, AllTypesMatch<["init", "result"]>, DT_PrecisionNarrow, DT_FactorLinear,
                                         DT_Reference, DT_CostInPlace, DT_LibraryInPlace]> {
  let summary = "init with rows replaced: result[b, positions[s], ...] = rows[b, s, ...].";
  let description = [{
    Stores keys and values in their caches while a model generates. A position outside init is skipped; no two positions
    within it are equal. Overwrites init in place.

    ```mlir
    %keys = dt.write_rows %k into %cache at %positions : tensor<1x1x12x64xf32>, tensor<1xi32> -> tensor<1x64x12x64xf32>
    ```
    C1: init and rows have at least three dimensions, which are equal except for the second. C2: one position for each
    element of the rows' dimension 1. C3: init and rows have one element type.
  }];
  let arguments = (ins DT_FloatTensor:$init, DT_FloatTensor:$rows, DT_IntTensor:$positions);
  let results = (outs DT_FloatTensor:$result);
  let assemblyFormat = "$rows `into` $init `at` $positions attr-dict `:` type($rows) `,` type($positions) `->` type($init)";
  let hasVerifier = 1;
}

def DT_TagOp : DT_Op<"tag", [Pure, DT_Precision, DT_View, SameOperandsAndResultType, DT_FactorLinear, DT_Differentiable, DT_Reference, DT_Cost]> {
  let summary = "Names an activation and its dimensions, so that a strategy can place it.";
  let description = [{
    The identity. `name` is the model's name for the value (such as "h.3.residual"), `dim_names` name its dimensions;
    its gradient is a tag of the same name and dimensions. A strategy writes `sharding`.
    C1: one name for each dimension.
  }];
  let arguments = (ins DT_Tensor:$operand, StrAttr:$name, StrArrayAttr:$dim_names, OptionalAttr<DT_ShardingAttr>:$sharding);
  let results = (outs DT_Tensor:$result);
  let assemblyFormat = "$operand $name $dim_names (`sharded` $sharding^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def DT_BarrierOp : DT_Op<"barrier", [DT_SeparatesKernels, DT_View, SameOperandsAndResultType, DT_FactorLinear, DT_Reference, DT_Cost]> {
  let summary = "The same tensor, from which something is recomputed.";
  let description = [{
    The identity. What reads it is not merged with what reads the operand, so a recomputed value stays separate from the
    first one. A view: it costs nothing.
  }];
  let arguments = (ins DT_Tensor:$operand);
  let results = (outs Res<DT_Tensor, "", [MemAlloc]>:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

def DT_ReshardOp : DT_Op<"reshard", [Pure, SameOperandsAndResultType, DT_Factor, DT_Reference, DT_Cost]> {
  let summary = "The same tensor, placed as `sharding` says.";
  let description = [{
    The identity on whole tensors; it costs what moving its pieces costs. It connects how state is stored with how it is
    computed with: placements do not propagate through it, and each reshard moves the pieces again, so what a forward
    pass has gathered need not live until the backward pass. Partitioning turns it into collectives. C1: the sharding
    fits the tensor.
  }];
  let arguments = (ins DT_Tensor:$operand, DT_ShardingAttr:$sharding);
  let results = (outs DT_Tensor:$result);
  let assemblyFormat = "$operand `to` $sharding attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif // DT_STRUCTURAL_OPS_TD
