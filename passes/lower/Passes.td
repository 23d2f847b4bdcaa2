// Passes of *how*: with which memory and code?
#ifndef DTC_LOWER_PASSES_TD
#define DTC_LOWER_PASSES_TD

include "mlir/Pass/PassBase.td"

def FuseKernels : Pass<"dt-fuse-kernels", "mlir::ModuleOp"> {
  let summary = "Groups elementwise operations and reductions into kernels.";
  let description = [{
    Before:
    ```mlir
    %bias = dt.broadcast %b dims [1] : tensor<64xf32> -> tensor<8x64xf32>
    %sum = dt.add %x, %bias : tensor<8x64xf32>
    %y = dt.gelu %sum : tensor<8x64xf32>
    ```
    After: `%y = dt.launch @add_gelu_0(%x, %b)`, with the three operations in a `dt.kernel @add_gelu_0`.

    An operation that reads at most one large tensor is *light*: recomputed by each kernel that needs it, so that
    biases, activations' derivatives and dropout masks are never stored. The others are *heavy*: each belongs to exactly
    one kernel. A heavy operation joins a kernel that produces or shares one of its inputs when every other input is
    available before that kernel; a level for each value (one more than its inputs') keeps the result acyclic. Equal
    kernels are one symbol, and kernels of equal layers are equal: a launch says which sites the kernel's draws are
    keyed by. Requires: local shapes and no dt.tag. Ensures: no operation for which passes/analysis/KernelOps.h's
    `isKernelOp` holds is left outside a kernel.
  }];
}

def PadRows : Pass<"dt-pad-rows", "mlir::func::FuncOp"> {
  let summary = "Lengthens rows of products to what a target's wide accesses need.";
  let description = [{
    Before, for a target that reads 16 bytes at a time (Target::getBufferAlignment):
    ```mlir
    %y = dt.contract "sd,vd->sv" %x, %w : tensor<8x64xbf16>, tensor<251x64xbf16> -> tensor<8x251xbf16>
    %m = dt.reduce max %y over [1] : tensor<8x251xbf16> -> tensor<8xbf16>
    ```
    After: `%w` has five more rows, of zeros, `%y` is 8x256, and the maximum is taken of a `dt.select` where columns
    from 251 on are minus infinity.

    Rows of 251 elements of 16 bits begin at odd places: kernels would read single elements, and libraries of products
    have fast code only for rows at multiples of 16 bytes. A vocabulary of 50257 is the case that matters. The result of
    such a product is padded together with all that is computed from it element by element, up to reductions along the
    rows and further products: there the new columns are made neutral. Where anything else reads it, nothing changes.
  }];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def FuseEpilogues : Pass<"dt-fuse-epilogues", "mlir::func::FuncOp"> {
  let summary = "Fuses what follows a contraction into its library call.";
  let description = [{
    Before:
    ```mlir
    %c = dt.contract "md,df->mf" %a, %w : tensor<8x64xbf16>, tensor<64x32xbf16> -> tensor<8x32xbf16>
    %bias = dt.broadcast %b dims [1] : tensor<32xbf16> -> tensor<8x32xbf16>
    %x = dt.add %c, %bias : tensor<8x32xbf16>
    %y = dt.gelu %x tanh : tensor<8x32xbf16>
    ```
    After: `%y, %x = dt.product "md,df->mf" %a, %w bias %b gelu`, where %x is needed too; else %y alone. Also fused are
    a bias without dt.gelu, an accumulator that the contraction is added to (even through a conversion to f32), and
    dt.gelu_grad. What is recomputed later from the contraction and the bias is made from %x, which also goes to the
    host's memory instead of the contraction.

    Only what saves passes over memory is fused: results that are stored in any case, since something outside kernels
    reads them, such as another contraction. A bias whose sum only kernels read, such as one that a residual and a norm
    follow, costs nothing there. An accumulator is read by nothing else, so its sum overwrites it; x of dt.gelu_grad is
    there already. All readers of the contraction must be served, or it would be stored as well.

    For targets that have such products (Target::hasEpilogues), within what their library takes. An element is rounded
    only once, after its epilogue, and not also before it. Requires: local shapes.
  }];
}

def OutlineFormulas : Pass<"dt-outline-formulas", "mlir::ModuleOp"> {
  let summary = "Turns each application of a formula into the launch of a kernel.";
  let description = [{
    Before:
    `%new = dt.apply @sgd(%p, %g, %rate) : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>`

    After: `%new = dt.launch @sgd_0(%p, %g, %rate)`, with the formula's operations on tensors of 8x64 in a
    `dt.kernel @sgd_0`, where numbers are broadcast. Applications of one formula to equal types share a kernel.
    Requires: local shapes. Ensures: no dt.apply and no dt.formula is left.
  }];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def ExplicitCopies : Pass<"dt-explicit-copies", "mlir::func::FuncOp"> {
  let summary = "Inserts dt.copy where a value cannot be a view of another's buffer.";
  let description = [{
    Slices, transposes and reshapes stay views, and operands of a concatenation are written in place, where the
    neighbouring operations can address strided memory; elsewhere a `dt.copy` makes the move explicit. dt.pad becomes an
    update of zeros. An operation that overwrites an operand gets a copy of its own where the value is still needed. For
    a target whose kernels read vectors at multiples of their size, a part that begins elsewhere is copied before a
    kernel. Ensures: every operation can be called on the layouts that BufferAssignment computes.
  }];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def EmitGpuKernels : Pass<"dt-emit-gpu-kernels", "mlir::ModuleOp"> {
  let summary = "Appends a gpu.module with the functions of all kernels.";
  let description = [{
    After: for each `dt.kernel @add_0`, a `gpu.func @add_0` in `gpu.module @kernels`; further functions of a kernel that
    needs several launches are `@add_0$1` and so on. This is what a GPU target compiles, before anything vendor-specific
    (passes/lower/cuda/kernels/GpuFunction.h). Equal functions are there once. For tests.
  }];
  let dependentDialects = ["mlir::arith::ArithDialect", "mlir::gpu::GPUDialect", "mlir::LLVM::LLVMDialect",
                           "mlir::math::MathDialect", "mlir::memref::MemRefDialect", "mlir::scf::SCFDialect",
                           "mlir::vector::VectorDialect"];
}

def VerifyHow : Pass<"dt-verify-how", "mlir::ModuleOp"> {
  let summary = "Checks the contract of *how*.";
  let description = [{
    H1: every operation is a launch, a call of the library, a collective, a copy to the host or back, or a view. H2: in
    a function with marks, each operation except views and constants has a direction. H3: each library call can be made
    with its tensors' layouts.
  }];
}

#endif // DTC_LOWER_PASSES_TD
