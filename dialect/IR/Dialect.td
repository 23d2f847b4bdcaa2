// The dt dialect: one training step of a model, from logical tensors to per-rank collectives.
#ifndef DT_DIALECT_TD
#define DT_DIALECT_TD

include "mlir/IR/OpBase.td"

def DT_Dialect : Dialect {
  let name = "dt";
  let cppNamespace = "::mlir::dt";
  let summary = "Distributed training: models, their gradients, their placement and their collectives.";
  let description = [{
    A module holds functions over ranked, statically shaped tensors. It passes through five forms.

    1. *What*: logical tensors. `@loss` comes from a frontend; differentiation and the optimizer add `@micro`,
       `@reduce`, `@update` and `@eval`. Arguments and results carry `dt.port` (#dt.port), which says what they are: the
       same port means the same tensor in every function, and a result that repeats an argument's updates it in place.
    2. *Where*: ports say how they are computed with and stored, `dt.shardings` (an array, one for each result) how
       operations are placed; after partitioning, shapes are local and collectives explicit.
    3. *Keep*: the operations that the backward pass recomputes are there again, after a `dt.barrier`; parameters may
       have copies in the type that products compute in, which `@update` writes and `@refresh` makes from what the host
       has written.
    4. *How*: launches of kernels, library calls, views and copies.
    5. *When*: collectives are split into a start (result type `!dt.future`) and a `dt.wait`; values have places in the
       arena, and operations become commands of a list.

    Module attributes: `dt.mesh` (#dt.mesh), `dt.parameters` (array of #dt.param), `dt.symbols` (dictionary of named
    sizes), `dt.model` (name). Operations carry `dt.layer` (#dt.layer) and, from differentiation on, `dt.direction`
    (#dt.direction), which passes preserve.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{ void registerAttributes(); }];
}

#endif // DT_DIALECT_TD
