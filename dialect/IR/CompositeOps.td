// Composites: kept whole while gradients are taken, so that little is saved for them; most are then decomposed.
#ifndef DT_COMPOSITE_OPS_TD
#define DT_COMPOSITE_OPS_TD

include "dialect/IR/OpBase.td"

def DT_LayerNormOp : DT_Op<"layer_norm", [Pure, DT_Differentiable, DT_Decomposable, DT_Reference]> {
  let summary = "Layer normalisation over the last dimension.";
  let description = [{
    y = (x - mean) * rstd * scale + bias, rstd = 1 / √(variance + epsilon), biased variance. Ba et al.,
    arXiv:1607.06450. mean and rstd lack the last dimension; they are results because the gradient reads them.
    C1: scale and bias have the size of the last dimension.
  }];
  let arguments = (ins DT_FloatTensor:$operand, DT_FloatTensor:$scale, DT_FloatTensor:$bias, F64Attr:$epsilon);
  let results = (outs DT_FloatTensor:$result, DT_FloatTensor:$mean, DT_FloatTensor:$rstd);
  let assemblyFormat = "operands `epsilon` $epsilon attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$operand, "::mlir::Value":$scale, "::mlir::Value":$bias, "double":$epsilon)>];
}

def DT_RmsNormOp : DT_Op<"rms_norm", [Pure, DT_Differentiable, DT_Decomposable, DT_Reference]> {
  let summary = "Root-mean-square normalisation over the last dimension.";
  let description = [{
    y = x * rstd * scale, rstd = 1 / √(mean(x²) + epsilon). Zhang and Sennrich, arXiv:1910.07467.
    C1: scale has the size of the last dimension.
  }];
  let arguments = (ins DT_FloatTensor:$operand, DT_FloatTensor:$scale, F64Attr:$epsilon);
  let results = (outs DT_FloatTensor:$result, DT_FloatTensor:$rstd);
  let assemblyFormat = "operands `epsilon` $epsilon attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$operand, "::mlir::Value":$scale, "double":$epsilon)>];
}

def DT_SoftmaxCrossEntropyOp : DT_Op<"softmax_cross_entropy", [Pure, DT_Differentiable, DT_Decomposable, DT_Reference]> {
  let summary = "Negative log-likelihood of each target, and the log-sum-exp of its logits.";
  let description = [{
    nll[i] = lse[i] - logits[i, targets[i]], zero where targets[i] == ignore_index. The loss is a pair (sum, count): no
    mean is taken here. C1: results and targets have the logits' shape without the last dimension.
  }];
  let arguments = (ins DT_FloatTensor:$logits, DT_IntTensor:$targets, I64Attr:$ignore_index);
  let results = (outs DT_FloatTensor:$nll, DT_FloatTensor:$lse);
  let assemblyFormat = "operands `ignore` $ignore_index attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$logits, "::mlir::Value":$targets, "int64_t":$ignore_index)>];
}

def DT_RotaryOp : DT_Op<"rotary", [Pure, DT_Precision, AllTypesMatch<["operand", "result"]>, DT_FactorLinear, DT_Differentiable,
                                   DT_Reference, DT_Cost, DT_LibraryInPlace]> {
  let summary = "Rotary position embedding of [batch, sequence, ..., head_dim].";
  let description = [{
    Pairs (i, i + n) of the last dimension's first 2n elements are rotated by position * theta^(-i/n); the others stay.
    Without `pairs` n is half of the dimension. `scaling` changes the frequencies (runtime/abi/rotary.h). `inverse`
    rotates the other way. Su et al., arXiv:2104.09864, in the half-split convention of Llama's published weights. C1:
    rank at least 3, an even last dimension, and `pairs` from 1 to half of it. C2: one position for each element of
    dimension 1.
  }];
  let arguments = (ins DT_FloatTensor:$operand, DT_IntTensor:$positions, F64Attr:$theta, OptionalAttr<I64Attr>:$pairs,
                       OptionalAttr<DT_RotaryScalingAttr>:$scaling, UnitAttr:$inverse);
  let results = (outs DT_FloatTensor:$result);
  let assemblyFormat = [{ $operand `,` $positions `theta` $theta (`pairs` $pairs^)? (`scaling` $scaling^)?
      (`inverse` $inverse^)? attr-dict `:` type($operand) `,` type($positions) }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// How many pairs are rotated.
    int64_t countPairs();
    ::dtc::abi::RotaryScaling getScalingOrNone();
  }];
}

def DT_DropoutOp : DT_Op<"dropout", [Pure, DT_Precision, AllTypesMatch<["operand", "result"]>, DT_Differentiable, DT_Decomposable,
                                     DT_Evaluation, DT_Reference]> {
  let summary = "Zeroes elements at random and scales the others by 1 / (1 - rate).";
  let description = [{
    Keeps the elements whose draw u is at least `rate`; u is dt.random's for this key, site and the operand's shape,
    so the gradient, which is the same dropout of the gradient, draws the same mask. Evaluation passes the operand
    through. Srivastava et al., JMLR 15 (2014).
    C1: key has four elements. C2: 0 <= rate < 1.
  }];
  let arguments = (ins DT_FloatTensor:$operand, DT_IntTensor:$key, F64Attr:$rate, I64Attr:$site);
  let results = (outs DT_FloatTensor:$result);
  let assemblyFormat = "$operand `,` $key `rate` $rate `site` $site attr-dict `:` type($operand) `,` type($key)";
  let hasVerifier = 1;
}

// The attributes say where a piece of an attention is in the whole, for its dropout mask: see dtc_attention_forward in
// runtime/abi/library/attention.h for the index of an element's draw.
class DT_AttentionBase<string mnemonic, list<Trait> traits = []>
    : DT_Op<mnemonic, !listconcat([Pure, DT_FactorLinearPlaced, DT_Differentiable, DT_Reference, DT_CostOfClass,
                                   DT_LibraryStrided], traits)> {
  dag attributes = (ins F64Attr:$scale, BoolAttr:$causal, F64Attr:$dropout, I64Attr:$site,
                    DenseI64ArrayAttr:$global_shape, OptionalAttr<I64Attr>:$window, OptionalAttr<F64Attr>:$softcap,
                    OptionalAttr<DT_ShardingAttr>:$sharding);
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// 0 where there is none.
    double getSoftcapOrNone() { return getSoftcap() ? getSoftcap()->convertToDouble() : 0; }
  }];
}

def DT_AttentionOp : DT_AttentionBase<"attention", [DT_Evaluation, DT_PrecisionNarrow]> {
  let summary = "Scaled dot-product attention with grouped heads; returns the output and the log-sum-exp.";
  let description = [{
    q [B,S,G,R,E], k and v [B,T,G,E], out [B,S,G,R,E], lse [B,G,R,S]: G key/value heads, each serving R query heads.
    With `causal`, key positions above the query's are masked; positions are operands, so pieces of a sequence are
    exact. A key is also masked when its position is not above the query's minus `window` (Beltagy et al.,
    arXiv:2004.05150). With `starts` [B,S] so is a key whose position is below the query's start. With `softcap` c,
    scaled scores s become c tanh(s / c). Dropout draws are keyed by key, site and the element's place in the whole:
    `global_shape` is [B, G, R, L] and `sharding` places q's dimensions on one rank's piece. Scores are never stored.
    Dao et al., arXiv:2205.14135. C1: shapes agree as above. C2: key has four elements, positions S and T. C3: 0 <=
    dropout < 1. C4: q, k, v and out have one element type, lse is f32. C5: a window, which has at least one position,
    needs `causal`; a soft cap is positive. C6: one start for each query of each row.
  }];
  let arguments = !con((ins DT_FloatTensor:$q, DT_FloatTensor:$k, DT_FloatTensor:$v, DT_IntTensor:$q_positions,
                        DT_IntTensor:$k_positions, DT_IntTensor:$key, Optional<DT_IntTensor>:$starts), attributes);
  let results = (outs DT_FloatTensor:$out, DT_FloatTensor:$lse);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def DT_AttentionGradOp : DT_AttentionBase<"attention_grad"> {
  let summary = "Gradients of dt.attention for q, k and v.";
  let description = [{
    As dt.attention, which it recomputes from lse. It has no gradient of its own. C1: shapes agree. C4: all but lse have
    one element type.
  }];
  let arguments = !con((ins DT_FloatTensor:$q, DT_FloatTensor:$k, DT_FloatTensor:$v, DT_IntTensor:$q_positions,
                        DT_IntTensor:$k_positions, DT_IntTensor:$key, DT_FloatTensor:$out, DT_FloatTensor:$lse,
                        DT_FloatTensor:$d_out, Optional<DT_IntTensor>:$starts), attributes);
  let results = (outs DT_FloatTensor:$d_q, DT_FloatTensor:$d_k, DT_FloatTensor:$d_v);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

#endif // DT_COMPOSITE_OPS_TD
