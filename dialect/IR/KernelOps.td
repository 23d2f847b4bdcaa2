// Kernels: groups of operations that become one native function each, and their launches.
#ifndef DT_KERNEL_OPS_TD
#define DT_KERNEL_OPS_TD

include "dialect/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"

def DT_KernelOp : DT_Op<"kernel", [IsolatedFromAbove, FunctionOpInterface]> {
  let summary = "Operations that are compiled together into one native function.";
  let description = [{
    The body is one block of dt operations over tensors: arguments are the inputs, `dt.yield` names the outputs. Its
    text states the meaning of the generated code; passes/lower/KernelDomain.h says which bodies code can be generated
    for and how the function is called.

    ```mlir
    dt.kernel @gelu(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
      %y = dt.gelu %x : tensor<8x64xf32>
      dt.yield %y : tensor<8x64xf32>
    }
    ```
    Layers that do the same share one kernel, so nothing in it names a place in the model: the `site` of a `dt.random` in
    a kernel is a number into the `sites` of each launch.

    C1: one block. C2: the yielded types are the function type's results. C3: at least one result.
  }];
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

def DT_YieldOp : DT_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"KernelOp">]> {
  let summary = "The outputs of a kernel.";
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
