// Movement of data between ranks. The result is a tensor, or a !dt.future of one that dt.wait turns into the tensor.
#ifndef DT_COLLECTIVE_OPS_TD
#define DT_COLLECTIVE_OPS_TD

include "dialect/IR/OpBase.td"

def DT_AxisRefArray : TypedArrayAttrBase<DT_AxisRefAttr, "mesh axes">;

// `reason` says why the collective is there; `remedy` names an annotation that may remove it, where one is known.
class DT_CollectiveOp<string mnemonic, dag operation, Trait collective = DT_Collective>
    : DT_Op<mnemonic, [Pure, collective, DT_CostOfClass]> {
  let arguments = !con((ins DT_Tensor:$operand, DT_AxisRefArray:$axes), operation,
                       (ins OptionalAttr<StrAttr>:$reason, OptionalAttr<StrAttr>:$remedy));
  let results = (outs DT_TensorOrFuture:$result);
  let hasVerifier = 1;
}

def DT_AllReduceOp : DT_CollectiveOp<"all_reduce", (ins DT_ReductionKind:$kind, OptionalAttr<DenseI32ArrayAttr>:$members),
                                     DT_CollectiveMembers> {
  let summary = "partial -> replicated: combines the pieces of all ranks on every rank.";
  let description = [{
    With `members`, only these ranks along the axes take part, such as a set of stages. C1: axes do not overlap. C2:
    operand and result have one type. C3: members ascend.
  }];
  let assemblyFormat = "$kind $operand `over` $axes (`members` $members^)? attr-dict `:` type($operand) `->` type($result)";
}

def DT_AllGatherOp : DT_CollectiveOp<"all_gather", (ins I64Attr:$dim)> {
  let summary = "split -> replicated: lays the pieces end to end along dim.";
  let description = "C1: axes do not overlap. C2: the result's size along dim is the operand's times the number of ranks.";
  let assemblyFormat = "$operand `along` $dim `over` $axes attr-dict `:` type($operand) `->` type($result)";
}

def DT_ReduceScatterOp : DT_CollectiveOp<"reduce_scatter", (ins DT_ReductionKind:$kind, I64Attr:$dim), DT_CollectiveReducing> {
  let summary = "partial -> split: combines the pieces and keeps this rank's part along dim.";
  let description = "C1: axes do not overlap. C2: the operand's size along dim is the result's times the number of ranks.";
  let assemblyFormat = "$kind $operand `along` $dim `over` $axes attr-dict `:` type($operand) `->` type($result)";
}

def DT_AllToAllOp : DT_CollectiveOp<"all_to_all", (ins I64Attr:$split_dim, I64Attr:$concat_dim)> {
  let summary = "split along concat_dim -> split along split_dim.";
  let description = "C1: axes do not overlap. C2: the dimensions differ. C3: sizes agree.";
  let assemblyFormat = "$operand `split` $split_dim `concat` $concat_dim `over` $axes attr-dict `:` type($operand) `->` type($result)";
}

def DT_ShardSliceOp : DT_Op<"shard_slice", [Pure, DT_Reference, DT_CostOfRows, DT_LibraryStrided]> {
  let summary = "replicated -> split, without communication: this rank's part along dim.";
  let description = [{
    Part number (rank index in axes) of ceil(size / ranks) elements; where the sizes do not divide, the last parts are
    padded with zeros. C1: axes do not overlap. C2: sizes agree.
  }];
  let arguments = (ins DT_Tensor:$operand, I64Attr:$dim, DT_AxisRefArray:$axes);
  let results = (outs DT_Tensor:$result);
  let assemblyFormat = "$operand `along` $dim `over` $axes attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

def DT_WaitOp : DT_Op<"wait", [Pure, DT_Waits, DT_Reference, DT_Cost]> {
  let summary = "The value of a started collective, once it has arrived.";
  let arguments = (ins DT_FutureType:$future);
  let results = (outs DT_Tensor:$result);
  let assemblyFormat = "$future attr-dict `:` type($future) `->` type($result)";
  let hasVerifier = 1;
}

def DT_SendOp : DT_Op<"send", [DT_CostOfClass]> {
  let summary = "Begins to send what a stage hands on.";
  let description = [{
    To the rank `shift` places on along `axes`. The operand, which the function returns as the port, stays as it is
    until a `dt.await` of the port.
  }];
  let arguments = (ins DT_Tensor:$operand, DT_PortAttr:$port, DT_AxisRefArray:$axes, I64Attr:$shift);
  let assemblyFormat = "$operand `as` $port `by` $shift `over` $axes attr-dict `:` type($operand)";
}

def DT_RecvOp : DT_Op<"recv", [DT_CostOfClass]> {
  let summary = "Begins to receive what another stage hands on.";
  let description = "From the rank `shift` places on along `axes`. The result may be read after a `dt.await` of the port.";
  let arguments = (ins DT_PortAttr:$port, DT_AxisRefArray:$axes, I64Attr:$shift);
  let results = (outs Res<DT_Tensor, "", [MemAlloc]>:$result);
  let assemblyFormat = "$port `by` $shift `over` $axes attr-dict `:` type($result)";
}

def DT_AwaitOp : DT_Op<"await", [DT_Waits, SameOperandsAndResultType, DT_Reference, DT_Cost]> {
  let summary = "The same tensor, once its transfer is over.";
  let description = "Another function began the transfer: a receive, whose result this is, or a send, which read it.";
  let arguments = (ins DT_Tensor:$operand, DT_PortAttr:$port);
  let results = (outs Res<DT_Tensor, "", [MemAlloc]>:$result);
  let assemblyFormat = "$operand `of` $port attr-dict `:` type($result)";
}

#endif // DT_COLLECTIVE_OPS_TD
