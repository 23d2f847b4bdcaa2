// Where: annotations become placements, placements become local shapes and collectives.
#ifndef DTC_PLACE_PASSES_TD
#define DTC_PLACE_PASSES_TD

include "mlir/Pass/PassBase.td"

def Annotate : Pass<"dt-annotate", "::mlir::ModuleOp"> {
  let summary = "Write a strategy's placements on parameters, inputs, outputs and tagged activations";
  let description = [{
    Sets the module's `dt.mesh` and turns a strategy (a preset or a file, see passes/place/Annotations.h) into
    the placements of `dt.port` on arguments and results and `sharding` on tags. Nothing else knows strategies.

    ```mlir
    func.func @micro(%w: tensor<8x6xf32> {dt.port = #dt.port<parameter "fc">}, ...)
    // with megatron on dp=2,tp=2, where fc has the dimensions embed and mlp:
    func.func @micro(%w: tensor<8x6xf32> {dt.dims = ["embed", "mlp"], dt.port = #dt.port<parameter "fc", placed = <[{}, {"tp"} ]>>}, ...)
    ```

    Requires: form 1 (ports on arguments and results, `dt.parameters` on the module).
    Ensures: every argument that is a parameter, slot or input has a placement; outputs are replicated.
  }];
  let options = [
    Option<"mesh", "mesh", "std::string", "\"\"", "Axes and sizes, such as dp=2,tp=2; empty keeps the module's mesh">,
    Option<"strategy", "strategy", "std::string", "\"ddp\"", "Presets (such as megatron-sp+zero3) or a TOML file">,
    Option<"strategyText", "strategy-text", "std::string", "\"\"", "What the file says, if it has been read already">,
    Option<"entry", "entry", "std::string", "\"\"", "One more entry after the strategy's: [storage] \"*\" = { any = [] }">
  ];
}

def InsertReshards : Pass<"dt-insert-reshards", "::mlir::func::FuncOp"> {
  let summary = "Connect how state is stored with how it is computed with";
  let description = [{
    Inserts a `dt.reshard` between storage and compute. No placement propagates through it:

    1. where a parameter is read that is stored otherwise, one before each read. Each gathers again, so that what the
       forward pass gathered is freed and the backward pass gathers it again;
    2. where a gradient is stored otherwise than its parameter is computed with, one on what a micro-batch adds to it;
    3. in the function that reduces gradients, one on each, to where the update wants it;
    4. where parameters are updated, one before and one after, if the update does not happen where they are stored.

    Where the value is first converted to a type of fewer bytes, or last to a wider one, the narrow form moves.

    ```mlir
    func.func @micro(%w: tensor<8x6xf32> {dt.port = #dt.port<parameter "fc", computed = <[{}, {} ]>, stored = <[{"dp"}, {} ]>>}, ...)
      %h = dt.contract "bd,df->bf" %x, %w
    // becomes
      %0 = dt.reshard %w to <[{}, {} ]>
      %h = dt.contract "bd,df->bf" %x, %0
    ```

    Requires: dt-annotate. Ensures: arguments and results are used as they are stored.
  }];
  let dependentDialects = ["::mlir::dt::DTDialect"];
}

def Propagate : Pass<"dt-propagate", "::mlir::ModuleOp"> {
  let summary = "Spread the annotated placements over all values";
  let description = [{
    Operations say with their factors which dimensions go together; placements flow along them in both directions until
    nothing changes. Order of priority, so that the outcome is determined:

    1. annotations of parameters (and of gradients, which hint at their parameter's placement),
    2. then those of the other arguments and results,
    3. then those of tagged activations;

    each is spread over the whole function before the next is looked at. Within one of them the function is swept
    forward and backward in turn; within an operation factors are visited in order and take axes from operands first.
    What has been placed is never taken back (and constants, which every user builds for itself, pass nothing on): an
    axis can only split a further dimension that wants it. Where an operation finds an axis that it wants in two
    factors, the earlier factor keeps it and a remark names the other.

    ```mlir
    %h = dt.contract "bsd,df->bsf" %x, %w ...
    // x is split over dp along b, w over tp along f:
    %h = dt.contract "bsd,df->bsf" %x, %w {dt.iteration = #dt.sharding<[{"dp"}, {}, {}, {"tp"} ]>,
                                           dt.shardings = [#dt.sharding<[{"dp"}, {}, {"tp"} ]>] } ...
    ```

    Requires: dt-annotate. Ensures: every operation carries `dt.iteration` (its factors' axes) and `dt.shardings`.
  }];
}

def Partition : Pass<"dt-partition", "::mlir::ModuleOp"> {
  let summary = "Rewrite functions for one rank: local shapes and explicit collectives";
  let description = [{
    Each operation is built on the pieces its `dt.iteration` names. Operands that are placed otherwise are resharded,
    by the cheapest chain of collectives. Results that lack a split factor are partial; partial sums are resolved before
    fan-out and deferred only where that moves no more bytes: through single-use additions and movements, into
    operations whose result is partial anyway, and into accumulated gradients. A partial value is never added to a whole
    one.

    Pieces of dimensions that do not divide are padded to equal size; padding is undefined, except in state, where it is
    zero. Every reduction over a padded dimension first replaces the padding by the reduction's identity.

    ```mlir
    %y = dt.contract "bsf,fd->bsd" %h, %w {dt.iteration = #dt.sharding<[{"dp"}, {}, {"tp"}, {} ]>, ... }
    %z = dt.add %x, %y
    // becomes, with x whole along d:
    %0 = dt.contract "bsf,fd->bsd" %h, %w : tensor<2x8x16xf32>, tensor<16x4xf32> -> tensor<2x8x4xf32>
    %1 = dt.all_reduce sum %0 over [#dt.axis_ref<"tp", 1, 0>] {reason = "partial over tp ...", remedy = "..."}
    %z = dt.add %x, %1
    ```

    Requires: dt-propagate. Ensures: all types are local; every port says its placement and the type of the whole;
    dt.iteration and dt.shardings are gone.
  }];
}

def StackReductions : Pass<"dt-stack-reductions", "::mlir::func::FuncOp"> {
  let summary = "Joins the all-reduces of single numbers into one for each set of axes";
  let description = [{
    One by one, the losses, counts and squared norms of many parameters would each cost a latency. All-reduces of one
    element that have equal axes and kind and do not depend on each other are stacked into a vector. In an update that
    each stage of a pipeline does by itself (`dt.asynchronous`) only those of one layer are.

    ```mlir
    %a = dt.all_reduce sum %x over [...] : tensor<f32> -> tensor<f32>
    %b = dt.all_reduce sum %y over [...] : tensor<f32> -> tensor<f32>
    // becomes one all_reduce of concat(%x, %y) and two slices of its result
    ```

    Requires: dt-partition. Ensures: no two such all-reduces remain that could be one.
  }];
}

def VerifyWhere : Pass<"dt-verify-where", "::mlir::ModuleOp"> {
  let summary = "The contract of form 2";
  let description = [{
    Fails unless W1: the module has a mesh; W2: the port of every argument and result of every function has valid
    placements, and the type is the local type of its whole as it is stored; W3: the same tensor is stored alike in
    every function; W4: nothing carries dt.iteration or dt.shardings any more; W5: only gradients and shares are
    partial.
  }];
}

#endif // DTC_PLACE_PASSES_TD
