// Passes of the phase "what". See dialect/IR/Dialect.td for the forms of a module.
#ifndef DTC_PASSES_DIFFERENTIATE
#define DTC_PASSES_DIFFERENTIATE

include "mlir/Pass/PassBase.td"

class DifferentiatePass<string argument> : Pass<argument, "::mlir::ModuleOp"> {
  let dependentDialects = ["::mlir::func::FuncDialect", "::mlir::dt::DTDialect"];
}

def ChoosePrecision : DifferentiatePass<"dt-choose-precision"> {
  let summary = "Chooses the type that each operation of the model computes in.";
  let description = [{
    Operations say for themselves which type they may be computed in (PrecisionOpInterface): contractions and attention
    in the compute type; elementwise work, shapes and rotary embeddings in the compute type where everything they read
    has it; all others, norms, softmax and losses among them, in f32. So the residual stream, which begins with rows of
    a table, stays f32. What is made only from parameters, such as a broadcast bias, takes the type of what it meets.
    Parameters stay f32 and are converted once, before they are repeated or moved; the results are f32. Caches have the
    type of what is written into them.

    ```mlir
    %h = dt.contract "bd,df->bf" %x, %w : tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
    %y = dt.gelu %h : tensor<2x3xf32>
    %s = dt.exp %y : tensor<2x3xf32>
    // becomes
    %0 = dt.convert %x : tensor<2x4xf32> -> tensor<2x4xbf16>
    %1 = dt.convert %w : tensor<4x3xf32> -> tensor<4x3xbf16>
    %h = dt.contract "bd,df->bf" %0, %1 : tensor<2x4xbf16>, tensor<4x3xbf16> -> tensor<2x3xbf16>
    %y = dt.gelu %h : tensor<2x3xbf16>
    %2 = dt.convert %y : tensor<2x3xbf16> -> tensor<2x3xf32>
    %s = dt.exp %2 : tensor<2x3xf32>
    ```

    Runs before dt-differentiate: gradients convert back where values were converted. Requires @loss, or functions that
    generate.
  }];
  let options = [Option<"compute", "compute", "std::string", "\"f32\"", "\"f32\", \"bf16\" or \"f16\"">];
}

def NarrowGradients : DifferentiatePass<"dt-narrow-gradients"> {
  let summary = "Chooses the type in which gradients leave @micro.";
  let description = [{
    With `gradients` f32, sums that were rounded to 16 bits only to be widened again give f32 directly
    (PrecisionOpInterface::canWidenResults): contractions and reductions whose results are gradients of parameters.
    Otherwise each gradient is rounded to the type; where micro-batches are added up (`accumulates`) it is widened again
    before that, so that it travels in 16 bits and is summed in f32.

    ```mlir
    %0 = dt.contract "bd,bf->df" %x, %g : tensor<2x4xbf16>, tensor<2x3xbf16> -> tensor<4x3xbf16>
    %1 = dt.convert %0 : tensor<4x3xbf16> -> tensor<4x3xf32>
    return %1
    // becomes, for f32,
    %1 = dt.contract "bd,bf->df" %x, %g : tensor<2x4xbf16>, tensor<2x3xbf16> -> tensor<4x3xf32>
    return %1
    ```

    Requires dt-differentiate; runs before dt-build-accumulation.
  }];
  let options = [
    Option<"gradients", "gradients", "std::string", "\"f32\"", "\"f32\", \"bf16\" or \"f16\"">,
    Option<"accumulates", "accumulates", "bool", "false", "whether there are several micro-batches">,
  ];
}

def NarrowReduction : DifferentiatePass<"dt-narrow-reduction"> {
  let summary = "Rounds accumulated gradients to the type in which they travel.";
  let description = [{
    @reduce reads each gradient through a conversion to the type and back. Where a gradient is still partial,
    dt-insert-reshards moves its narrow form; where it does not travel it is rounded all the same, so that layouts
    agree. Requires dt-build-reduction.
  }];
  let options = [Option<"gradients", "gradients", "std::string", "\"f32\"", "\"f32\", \"bf16\" or \"f16\"">];
}

def Differentiate : DifferentiatePass<"dt-differentiate"> {
  let summary = "Builds @micro: @loss and the gradients of its loss_sum for every parameter.";
  let description = [{
    Reverse-mode differentiation, generic over DifferentiableOpInterface. Gradients of a value with several uses are
    summed; integers and masks carry none; a parameter that the loss does not depend on gets zeros. Each gradient
    operation has the location and `dt.layer` of the operation it belongs to. Every operation of @micro gets a
    direction: what was there is `forward`; the gradient of an activation and what it is made from are `input_gradient`,
    all other gradients `weight_gradient`. What is made only from parameters, such as their conversion to 16 bits, is
    not an activation.

    ```mlir
    func.func @loss(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">}) -> (tensor<f32>, tensor<f32>) {
      %0 = dt.exp %w : tensor<4xf32>
      %1 = dt.reduce sum %0 over [0] : tensor<4xf32> -> tensor<f32>
      return %1, %count
    }
    // becomes, beside it,
    func.func @micro(%w: ...) -> (tensor<f32>, tensor<f32>, tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>}) {
      %0 = dt.exp %w
      %1 = dt.reduce sum %0 over [0]
      %2 = dt.broadcast 1.0
      %3 = dt.mul %2, %0
      return %1, %count, %3
    }
    ```

    Requires @loss, straight-line, with a result named "loss_sum". Ensures results (micro_loss_sum, micro_token_count,
    a gradient for each parameter in the order of the arguments). Takes time linear in the number of operations.
    With `scaled` @micro has an input from loss_scale, which all gradients are multiplied by: small ones of f16 would
    vanish. Later passes find it among the arguments, and divide it out of norm and update.
    With `asynchronous` micro_loss_sum and micro_token_count are whole: the stages of a pipeline update their parameters
    by themselves (docs/pipelines.md, PipeDream), so the last stage must know both before the backward pass. It is an
    error together with `scaled`.
  }];
  let options = [Option<"scaled", "scaled", "bool", "false", "gradients of loss_sum times an input from loss_scale">,
                 Option<"asynchronous", "asynchronous", "bool", "false", "the sums over the batch are whole at once">];
}

def BuildEvaluation : DifferentiatePass<"dt-build-evaluation"> {
  let summary = "Turns @loss into @eval: operations take their evaluation form.";
  let description = [{
    Operations with EvaluationOpInterface (dropout, attention with dropout) are replaced by their form for evaluating a
    trained model; results are renamed to "eval_loss_sum" and "eval_token_count".
    Runs after dt-differentiate, which still needs @loss. Ensures that @loss is gone.
  }];
}

def StoreNarrow : DifferentiatePass<"dt-store-narrow"> {
  let summary = "Stores parameters in the type that products read.";
  let description = [{
    Nothing updates the parameters of functions that generate: where some operation reads one in 16 bits, it is stored
    in 16 bits. Operations that read it in f32 get the stored number widened, after those that only move it.

    ```mlir
    func.func @generate(%w: tensor<4x3xf32> {dt.port = #dt.port<parameter "w">}, ...) {
      %rows = dt.gather %w, %tokens : tensor<4x3xf32>, tensor<1x1xi32> -> tensor<1x1x3xf32>
      %0 = dt.convert %w : tensor<4x3xf32> -> tensor<4x3xbf16>
      %y = dt.contract "bd,vd->bv" %x, %0 : ...
    // becomes
    func.func @generate(%w: tensor<4x3xbf16> {dt.port = #dt.port<parameter "w">}, ...) {
      %0 = dt.gather %w, %tokens : tensor<4x3xbf16>, tensor<1x1xi32> -> tensor<1x1x3xbf16>
      %rows = dt.convert %0 : tensor<1x1x3xbf16> -> tensor<1x1x3xf32>
      %y = dt.contract "bd,vd->bv" %x, %w : ...
    ```
    Requires dt-choose-precision, and functions that generate.
  }];
  let options = [Option<"compute", "compute", "std::string", "\"f32\"", "\"f32\", \"bf16\" or \"f16\"">];
}

def BuildGeneration : DifferentiatePass<"dt-build-generation"> {
  let summary = "Gives @prompt and @generate the form in which they are used.";
  let description = [{
    Operations with EvaluationOpInterface take their evaluation form, and everything is marked `forward`. Requires
    @prompt, and @generate where there are caches.
  }];
}

def BuildAccumulation : DifferentiatePass<"dt-build-accumulation"> {
  let summary = "Builds @micro_next: @micro, added to running gradients and sums.";
  let description = [{
    ```mlir
    func.func @micro(%params..., %inputs...) -> (micro_loss_sum, micro_token_count, gradients...)
    // gives, beside it,
    func.func @micro_next(%params..., %inputs..., %micro_loss_sum, %micro_token_count, %gradients...)
        -> (the same, each the argument plus what @micro computes)
    ```
    The gradients are neither averaged nor reduced here: @reduce does that once a step.
  }];
}

def BuildReduction : DifferentiatePass<"dt-build-reduction"> {
  let summary = "Builds @reduce: what is known about a step once all its micro-batches have run.";
  let description = [{
    (gradients, micro_loss_sum, micro_token_count) -> (reduced gradients, loss_sum, token_count, local_loss_sum,
    grad_square_sums, grad_norm). On logical tensors the reduced gradients are the gradients themselves; where they are
    partial, the phase "where" resolves them here, once. grad_square_sums has one element for each parameter's summed
    gradient, so that a non-finite one names its parameter; grad_norm is the norm of the mean gradient, √(Σ
    grad_square_sums) / max(token_count, 1). local_loss_sum is the micro-batches' own, which stays partial. Requires
    @micro.
    With `asynchronous`: (gradients, micro_loss_sum, micro_token_count) -> (reduced gradients, loss_sum, token_count,
    update_applied, step_loss_sum, step_token_count). The last two are shares of each stage, for its update. There are no
    norms: they would need the gradients of all stages.
    With `early-update` there is also the output update_holds: 1 where the update applies and `clip-norm` clips nothing,
    as @assume has it, else 0; and the share step_token_count, each rank's part of the count, for @assume.
  }];
  let options = [Option<"asynchronous", "asynchronous", "bool", "false", "what stages know that update by themselves">,
                 Option<"earlyUpdate", "early-update", "bool", "false", "updates begin before the norm is known">,
                 Option<"clipNorm", "clip-norm", "double", "0.0", "as in dt-build-update; read with early-update">];
}

def BuildUpdate : DifferentiatePass<"dt-build-update"> {
  let summary = "Builds @update: the optimizer.";
  let description = [{
    Parameters and moments are updated in place: results repeat the arguments' ports. The mean gradient is
    g = reduced gradient * c / max(token_count, 1), with the clipping coefficient c = min(1, clip-norm / (grad_norm +
    1e-6)), or 1 when clip-norm is 0. There are no branches: where loss_sum or grad_norm is not finite, or token_count
    is 0, every result is its argument, bit by bit, and the output update_applied is 0; else it is 1.

    AdamW (Loshchilov and Hutter, arXiv:1711.05101), with bias corrections bᵢ = 1 - betaᵢ^t given as inputs:
      m ← beta1 m + (1 - beta1) g,  v ← beta2 v + (1 - beta2) g²,
      p ← p (1 - lr weight_decay) - (lr / b1) m / (√v / √b2 + epsilon).
    With a share `nesterov` of Nesterov's look-ahead (NAdam, Dozat 2016; all of it is optax.adamw(nesterov=True)) m / b1
    becomes (1 - nesterov) m / b1 + nesterov (beta1 m / (1 - beta1^(t+1)) + (1 - beta1) g / b1).
    Stochastic gradient descent, as PyTorch's:
      g ← g + weight_decay p,  m ← momentum m + g,  p ← p - lr m;  without momentum there is no m.
    Weight decay applies to parameters whose #dt.param says `decays`.
    With `asynchronous` the shares step_loss_sum and step_token_count take the place of the outputs loss_sum and
    token_count, there is no norm over all gradients, and @reduce says whether the update is applied. Then each layer,
    and each parameter outside the layers, is clipped by the norm of its own mean gradient.
    With `early-update` there is also @assume: (step_token_count) -> (loss_sum, token_count, grad_norm), a loss and a
    norm of 0, from which @update may begin before the true ones are known. Requires `dt.parameters`.
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"", "one of runtime/abi/optimizers.h">,
    ListOption<"settings", "settings", "std::string", "the optimizer's own, \"beta1=0.9\"; others have their defaults">,
    Option<"clipNorm", "clip-norm", "double", "0.0", "greatest norm of the mean gradient; 0: unbounded">,
    Option<"asynchronous", "asynchronous", "bool", "false", "each stage of a pipeline updates by itself">,
    Option<"earlyUpdate", "early-update", "bool", "false", "updates begin before the norm is known">,
  ];
}

def Decompose : DifferentiatePass<"dt-decompose"> {
  let summary = "Rewrites composites as primitives.";
  let description = [{
    Every operation with DecomposableOpInterface is replaced by the values it builds; location and `dt.layer` stay.

    ```mlir
    %y, %mean, %rstd = dt.layer_norm %x, %scale, %bias epsilon 1e-5
    // becomes sums over the last dimension, broadcasts and elementwise operations
    ```
  }];
}

def VerifyWhat : DifferentiatePass<"dt-verify-what"> {
  let summary = "The contract that closes the phase \"what\".";
  let description = [{
    W1: the module has dt.model, dt.symbols and dt.parameters.
    W2: @micro, @reduce, @update and @eval exist, or @prompt; @loss does not.
    W3: every argument and result has a dt.port; no two arguments, and no two results, of a function have the same; the
        same port has one type throughout the module.
    W4: what belongs to a parameter (itself, slots, gradients) names a parameter of dt.parameters and has its
        logical shape.
    W5: functions are straight-line: one block of dt operations and a return.
    W6: every operation has FactorOpInterface, which the next phase asks for; composites that decompose are gone.
    W7: every input says its source, the same in all functions.
  }];
}

#endif // DTC_PASSES_DIFFERENTIATE
