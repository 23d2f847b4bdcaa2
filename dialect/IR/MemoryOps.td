// Copies, made explicit where a value cannot stay where it is.
#ifndef DT_MEMORY_OPS_TD
#define DT_MEMORY_OPS_TD

include "dialect/IR/OpBase.td"

def DT_CopyOp : DT_Op<"copy", [Pure, SameOperandsAndResultType, DT_Reference, DT_CostOfClass, DT_LibraryInPlace]> {
  let summary = "The identity, in a buffer of its own.";
  let description = [{
    Inserted by `dt-explicit-copies` where a strided view meets an operation that needs dense memory, or where a value
    must end up in a given place.
  }];
  let arguments = (ins DT_Tensor:$operand);
  let results = (outs DT_Tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

def DT_UpdateSliceOp : DT_Op<"update_slice", [Pure, AllTypesMatch<["init", "result"]>, DT_Reference, DT_CostInPlace,
                                              DT_LibraryInPlace]> {
  let summary = "init with the box at `offsets` replaced.";
  let description = "C1: update fits into init at offsets. Overwrites init in place.";
  let arguments = (ins DT_Tensor:$init, DT_Tensor:$update, DenseI64ArrayAttr:$offsets);
  let results = (outs DT_Tensor:$result);
  let assemblyFormat = "$update `into` $init `at` $offsets attr-dict `:` type($update) `->` type($init)";
  let hasVerifier = 1;
}

// Both are the identity. The result is a tensor, or a !dt.future of one that dt.wait turns into the tensor.
class DT_HostCopyOp<string mnemonic> : DT_Op<mnemonic, [Pure, DT_HostCopy, DT_Reference, DT_CostOfClass]> {
  let arguments = (ins DT_Tensor:$operand);
  let results = (outs DT_TensorOrFuture:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

def DT_OffloadOp : DT_HostCopyOp<"offload"> {
  let summary = "Copies a tensor to the host's memory.";
  let description = [{
    Inserted by `dt-offload-layers`. The result is in the host's memory, where only `dt.fetch` reads it. C1: the result
    is the operand, or a future of it.
  }];
}

def DT_FetchOp : DT_HostCopyOp<"fetch"> {
  let summary = "Copies an offloaded tensor back.";
  let description = "C1: the result is the operand, or a future of it. C2: the operand is what a `dt.offload` has made.";
}

#endif // DT_MEMORY_OPS_TD
