// Bodies that operations share: formulas and their application, kernels and their launches.
#ifndef DT_KERNEL_OPS_TD
#define DT_KERNEL_OPS_TD

include "dialect/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"

// A function of one block over tensors that ends in a dt.yield.
class DT_BodyOp<string mnemonic, list<Trait> traits = []>
    : DT_Op<mnemonic, !listconcat([IsolatedFromAbove, FunctionOpInterface], traits)> {
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                   OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region MaxSizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::FunctionType":$type)>];
  let skipDefaultBuilders = 1;
  let extraClassDeclaration = [{
    ArrayRef<Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ArrayRef<Type> getResultTypes() { return getFunctionType().getResults(); }
    Region *getCallableRegion() { return &getBody(); }
    /// The terminator; its operands are the outputs.
    YieldOp getYield();
  }];
}

def DT_FormulaOp : DT_BodyOp<"formula"> {
  let summary = "A function of numbers, to be applied at every index of tensors.";
  let description = [{
    Arguments, results and what the body computes have rank 0; the body consists of elementwise operations and
    constants. Optimizers are formulas: one for all parameters, however many there are.

    ```mlir
    dt.formula @sgd(%p: tensor<f32>, %g: tensor<f32>, %rate: tensor<f32>) -> tensor<f32> {
      %step = dt.mul %rate, %g : tensor<f32>
      %new = dt.sub %p, %step : tensor<f32>
      dt.yield %new : tensor<f32>
    }
    ```
    C1: one block. C2: the yielded types are the function type's results. C3: at least one result. C4: arguments and
    results have rank 0. C5: each operation is elementwise or a constant.
  }];
}

def DT_ApplyOp : DT_Op<"apply", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>, DT_Factor, DT_Reference,
                                 DT_Cost]> {
  let summary = "Applies a formula at every index.";
  let description = [{
    Operands of rank 0 are the same for all indices. Lowers to one kernel for each shape (dt-outline-formulas).

    ```mlir
    %new = dt.apply @sgd(%p, %g, %rate) : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
    ```
    C1: the symbol names a dt.formula. C2: operands and results have the formula's element types, in order. C3: the
    results have one shape, and each operand this shape or rank 0.
  }];
  let arguments = (ins FlatSymbolRefAttr:$formula, Variadic<DT_Tensor>:$operands);
  let results = (outs Variadic<DT_Tensor>:$results);
  let assemblyFormat = "$formula `(` $operands `)` attr-dict `:` functional-type($operands, $results)";
  let extraClassDeclaration = [{
    FormulaOp lookUpFormula();
    /// The shape of the results.
    ArrayRef<int64_t> getShape() { return cast<RankedTensorType>(getResults().front().getType()).getShape(); }
  }];
}

def DT_KernelOp : DT_BodyOp<"kernel"> {
  let summary = "Operations that are compiled together into one native function.";
  let description = [{
    The body is one block of dt operations over tensors: arguments are the inputs, `dt.yield` names the outputs. Its
    text states the meaning of the generated code; passes/lower/kernels/KernelPlan.h says which bodies code can be
    generated for and how the function is called.

    ```mlir
    dt.kernel @gelu(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
      %y = dt.gelu %x : tensor<8x64xf32>
      dt.yield %y : tensor<8x64xf32>
    }
    ```
    Layers that do the same share one kernel, so nothing in it names a place in the model: the `site` of a `dt.random`
    in a kernel is an index into the `sites` of each launch.

    C1: one block. C2: the yielded types are the function type's results. C3: at least one result.
  }];
}

def DT_YieldOp : DT_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["KernelOp", "FormulaOp"]>]> {
  let summary = "The outputs of a kernel or of a formula.";
  let arguments = (ins Variadic<DT_Tensor>:$operands);
  let assemblyFormat = "$operands attr-dict `:` type($operands)";
}

def DT_LaunchOp : DT_Op<"launch", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>, DT_Reference]> {
  let summary = "Applies a kernel to tensors.";
  let description = [{
    `sites` are the places in the model, by number, that the kernel's draws are keyed by.

    ```mlir
    %y = dt.launch @dropout_0(%x, %key) sites [7] : (tensor<8x64xf32>, tensor<4xi32>) -> tensor<8x64xf32>
    ```
    C1: the symbol names a dt.kernel. C2: operand and result types are the kernel's. C3: each `dt.random` of the kernel
    has one of the sites.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<DT_Tensor>:$operands,
                   DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$sites);
  let results = (outs Variadic<DT_Tensor>:$results);
  let assemblyFormat = "$kernel `(` $operands `)` (`sites` $sites^)? attr-dict `:` functional-type($operands, $results)";
}

#endif // DT_KERNEL_OPS_TD
