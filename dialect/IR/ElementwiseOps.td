// One scalar function at every index. No implicit broadcasting: dt.broadcast does that.
#ifndef DT_ELEMENTWISE_OPS_TD
#define DT_ELEMENTWISE_OPS_TD

include "dialect/IR/OpBase.td"

class DT_ElementwiseOp<string mnemonic, list<Trait> traits = [], Trait elementwise = DT_Elementwise>
    : DT_Op<mnemonic, !listconcat([Pure, elementwise, DT_FactorLinear, DT_Differentiable, DT_Reference, DT_Cost], traits)>;

class DT_UnaryOp<string mnemonic, string function, list<Trait> traits = [], Trait elementwise = DT_Elementwise>
    : DT_ElementwiseOp<mnemonic, !listconcat([SameOperandsAndResultType], traits), elementwise> {
  let summary = "Elementwise " # function # ".";
  let arguments = (ins DT_FloatTensor:$operand);
  let results = (outs DT_FloatTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

class DT_BinaryOp<string mnemonic, string function, list<Trait> traits = []>
    : DT_ElementwiseOp<mnemonic, !listconcat([SameOperandsAndResultType], traits)> {
  let summary = "Elementwise " # function # ".";
  let arguments = (ins DT_NumberTensor:$lhs, DT_NumberTensor:$rhs);
  let results = (outs DT_NumberTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def DT_NegOp : DT_UnaryOp<"neg", "negation", [DT_Precision]>;
def DT_ExpOp : DT_UnaryOp<"exp", "exponential">;
def DT_LogOp : DT_UnaryOp<"log", "natural logarithm", [], DT_ElementwiseInexact>;
def DT_SqrtOp : DT_UnaryOp<"sqrt", "square root">;
def DT_RsqrtOp : DT_UnaryOp<"rsqrt", "reciprocal square root">;
def DT_TanhOp : DT_UnaryOp<"tanh", "hyperbolic tangent", [DT_Precision]>;
def DT_ErfOp : DT_UnaryOp<"erf", "error function">;
def DT_LogisticOp : DT_UnaryOp<"logistic", "logistic function 1 / (1 + exp(-x))">;
def DT_GeluOp : DT_ElementwiseOp<"gelu", [SameOperandsAndResultType, DT_Precision, DT_Epilogue], DT_ElementwiseInexact> {
  let summary = "Elementwise Gaussian error linear unit.";
  let description = [{
    x Φ(x); with `tanh` set, the approximation x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))). Hendrycks and Gimpel,
    arXiv:1606.08415. Kept whole so that only x is saved for its gradient.
  }];
  let arguments = (ins DT_FloatTensor:$operand, UnitAttr:$tanh);
  let results = (outs DT_FloatTensor:$result);
  let assemblyFormat = "$operand (`tanh` $tanh^)? attr-dict `:` type($result)";
}
def DT_GeluGradOp : DT_ElementwiseOp<"gelu_grad", [SameOperandsAndResultType, DT_Epilogue], DT_ElementwiseInexact> {
  let summary = "Gradient of dt.gelu for its operand, given the gradient of its result.";
  let description = [{
    gradient (Φ(x) + x φ(x)); with `tanh` set, and t = tanh(u), u = √(2/π) (x + 0.044715 x³):
    gradient ((1 + t)/2 + x/2 (1 - t²) du/dx). One operation for what would be fifteen in each layer of a model. It has
    no gradient of its own.
  }];
  let arguments = (ins DT_FloatTensor:$gradient, DT_FloatTensor:$operand, UnitAttr:$tanh);
  let results = (outs DT_FloatTensor:$result);
  let assemblyFormat = "$gradient `,` $operand (`tanh` $tanh^)? attr-dict `:` type($result)";
}
def DT_SiluOp : DT_UnaryOp<"silu", "x times its logistic function", [DT_Precision]>;

def DT_AddOp : DT_BinaryOp<"add", "sum", [DT_Precision, DT_Epilogue]> {
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}
def DT_SubOp : DT_BinaryOp<"sub", "difference", [DT_Precision]> { let hasFolder = 1; }
def DT_MulOp : DT_BinaryOp<"mul", "product", [DT_Precision]> { let hasFolder = 1; }
def DT_DivOp : DT_BinaryOp<"div", "quotient"> { let hasFolder = 1; }
def DT_MaxOp : DT_BinaryOp<"max", "maximum (no gradient is defined)">;
def DT_MinOp : DT_BinaryOp<"min", "minimum (no gradient is defined)">;
def DT_AndOp : DT_ElementwiseOp<"and", [SameOperandsAndResultType]> {
  let summary = "Elementwise conjunction of masks.";
  let arguments = (ins DT_MaskTensor:$lhs, DT_MaskTensor:$rhs);
  let results = (outs DT_MaskTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def DT_CompareOp : DT_ElementwiseOp<"compare", [SameOperandsAndResultShape, SameTypeOperands]> {
  let summary = "Elementwise comparison; ordered for floating point.";
  let arguments = (ins DT_CompareDirection:$direction, DT_NumberTensor:$lhs, DT_NumberTensor:$rhs);
  let results = (outs DT_MaskTensor:$result);
  let assemblyFormat = "$direction $lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
}

def DT_SelectOp : DT_ElementwiseOp<"select", [DT_Precision, AllTypesMatch<["on_true", "on_false", "result"]>,
                                              AllShapesMatch<["mask", "result"]>]> {
  let summary = "Elementwise choice.";
  let arguments = (ins DT_MaskTensor:$mask, DT_Tensor:$on_true, DT_Tensor:$on_false);
  let results = (outs DT_Tensor:$result);
  let assemblyFormat = "$mask `,` $on_true `,` $on_false attr-dict `:` type($mask) `,` type($result)";
}

def DT_ConvertOp : DT_ElementwiseOp<"convert", [SameOperandsAndResultShape, DT_Epilogue]> {
  let summary = "Elementwise conversion between floating-point types, i32 and masks.";
  let description = [{
    To a floating-point type: the nearest value, ties to even, infinite beyond the largest; to i32: towards zero; to a
    mask: whether the value is not zero. Between floating-point types it counts as linear, so partial sums pass through
    it. The gradient of a conversion between floating-point types is the conversion back; others have none.
  }];
  let arguments = (ins DT_NumberTensor:$operand);
  let results = (outs DT_NumberTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasFolder = 1;
}

#endif // DT_ELEMENTWISE_OPS_TD
