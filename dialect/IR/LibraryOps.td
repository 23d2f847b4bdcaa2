// What a target's library does in one call. Only *how* makes these operations, where the target says that it has them.
#ifndef DT_LIBRARY_OPS_TD
#define DT_LIBRARY_OPS_TD

include "dialect/IR/OpBase.td"

def DT_ProductOp : DT_Op<"product", [Pure, AttrSizedOperandSegments, DT_Reference, DT_CostOfClass, DT_LibraryAligned]> {
  let summary = "A contraction, and what is done with each of its elements before it is stored.";
  let description = [{
    The contraction of `lhs` and `rhs` by `spec`, as in dt.contract, with one of these epilogues:

    - `onto` accumulator: the sum with it, which may overwrite it;
    - `bias`: the sum with it, along the last dimensions;
    - `bias` ... `gelu`: dt.gelu, with `tanh`, of that sum, which is a second result where it is needed;
    - `gelu_grad` x: dt.gelu_grad, with `tanh`, of the contraction at x.

    Nothing in between is rounded to the result's type. All but lhs and rhs are dense, and begin at the multiples that
    the target's generated kernels expect.

    ```mlir
    %y, %x = dt.product "md,df->mf" %a, %w bias %b : tensor<4096xbf16> gelu : tensor<512x1024xbf16>,
             tensor<1024x4096xbf16> -> tensor<512x4096xbf16>, tensor<512x4096xbf16>
    ```
    C1 to C4: as dt.contract. C5: one of the epilogues above. C6: accumulator, x and the second result have the type of
    the result; bias has its element type and the sizes of its last dimensions.
  }];
  let arguments = (ins StrAttr:$spec, DT_FloatTensor:$lhs, DT_FloatTensor:$rhs, Optional<DT_FloatTensor>:$accumulator,
                   Optional<DT_FloatTensor>:$bias, Optional<DT_FloatTensor>:$operand, UnitAttr:$gelu);
  let results = (outs DT_FloatTensor:$result, Optional<DT_FloatTensor>:$sum);
  let assemblyFormat = [{
    $spec $lhs `,` $rhs (`onto` $accumulator^ `:` type($accumulator))? (`bias` $bias^ `:` type($bias))?
    (`gelu` $gelu^)? (`gelu_grad` $operand^ `:` type($operand))? attr-dict `:` type($lhs) `,` type($rhs) `->`
    type($result) (`,` type($sum)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// As runtime/abi/epilogue.h numbers them.
    ::dtc::abi::Epilogue getEpilogue();
  }];
}

#endif // DT_LIBRARY_OPS_TD
