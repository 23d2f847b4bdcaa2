// Passes of *keep*: what lives from forward to backward, and what is made again?
#ifndef DTC_KEEP_PASSES_TD
#define DTC_KEEP_PASSES_TD

include "mlir/Pass/PassBase.td"

def CompleteMarks : Pass<"dt-complete-marks", "mlir::func::FuncOp"> {
  let summary = "Gives what passes have made the marks of what it was made for.";
  let description = [{
    Differentiation marks every operation (`dt.direction`), frontends their layers (`dt.layer`). What later passes make
    without marks, a collective's padding or a copy, belongs to what reads it: to the earliest direction among its readers,
    as whoever waits for one waits for it; or, where nothing marked reads it, to what it reads. Ensures: in a function with
    marks, every operation but constants has a direction.
  }];
}

def DropTags : Pass<"dt-drop-tags", "mlir::func::FuncOp"> {
  let summary = "Replaces every dt.tag by its operand.";
  let description = [{
    A tag says where in the model a value is, for a strategy to place it. Once it is placed that is only a name, which
    must not tell the kernels of equal layers apart. Ensures: no dt.tag.
  }];
}

def GatherRows : Pass<"dt-gather-rows", "mlir::ModuleOp"> {
  let summary = "Moves an embedding's rows between ranks instead of the embedding and its gradient.";
  let description = [{
    The backward pass comes to an embedding last, so nothing hides what its gradient takes between ranks. But all that a
    batch adds are the rows of its tokens; where the embedding is the head's matrix too, or micro-batches came before, the
    rest is there early, and else it is zero. A sum over ranks is linear: the rest is reduced as soon as it is there, and
    only the rows move at the end. The head's product that makes it comes before that of the head's input, unless other
    ranks wait for that one.

    Before:
    ```mlir
    %a = dt.contract "abc,abd->cd" %g, %x : ... -> tensor<50257x768xf32>
    ... // all of the backward pass
    %s = dt.scatter_add %a, %ids, %rows : tensor<50257x768xf32>, tensor<4x256xi32>, tensor<4x256x768xf32>
    %r = dt.all_reduce sum %s over [dp] : tensor<50257x768xf32> -> tensor<50257x768xf32>
    ```
    After, over two ranks:
    ```mlir
    %a = dt.contract "abc,abd->cd" %g, %x : ... -> tensor<50257x768xf32>
    %b = dt.all_reduce sum %a over [dp] : tensor<50257x768xf32> -> tensor<50257x768xf32>
    ...
    %i = dt.all_gather %ids along 0 over [dp] : tensor<4x256xi32> -> tensor<8x256xi32>
    %t = dt.all_gather %rows along 0 over [dp] : tensor<4x256x768xf32> -> tensor<8x256x768xf32>
    %r = dt.scatter_add %b, %i, %t : tensor<50257x768xf32>, tensor<8x256xi32>, tensor<8x256x768xf32>
    ```
    The same where a table lies in parts of its rows on several ranks, as with ZeRO-3, and is gathered to be looked up
    in: each rank looks up its part of everybody's rows, and no bit changes. Before:
    ```mlir
    %t = dt.all_gather %w along 1 over [dp] : tensor<50257x384xf32> -> tensor<50257x768xf32>
    %r = dt.gather %t, %ids : tensor<50257x768xf32>, tensor<4x256xi32> -> tensor<4x256x768xf32>
    ```
    After:
    ```mlir
    %i = dt.all_gather %ids along 0 over [dp] : tensor<4x256xi32> -> tensor<8x256xi32>
    %p = dt.gather %w, %i : tensor<50257x384xf32>, tensor<8x256xi32> -> tensor<8x256x384xf32>
    %r = dt.all_to_all %p split 0 concat 2 over [dp] : tensor<8x256x384xf32> -> tensor<4x256x768xf32>
    ```
    It is done where a rank sends 1 MiB or more for a parameter in these ways and less than half of that for its rows, or as
    `rows` says of some parameters, a pattern over their names each (`wte.weight=gathered`, `=reduced`); the last that
    fits counts. What was decided where no rule fits is written down (`dt.rows`). How operations add, and what becomes of
    their operands where the result is left in parts, their factors say; see passes/keep/rows/LateRows.h and LookedUpRows.h. Of
    a gradient the order of the sum changes, and with it its last bits. Requires: no dt.tag between the two.
  }];
  let options = [ListOption<"rows", "rows", "std::string", "PATTERN=gathered or PATTERN=reduced">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def KeepCopies : Pass<"dt-keep-copies", "mlir::ModuleOp"> {
  let summary = "Keeps parameters from step to step in the type that products compute in.";
  let description = [{
    Mixed precision converts each parameter in each micro-batch: 4 bytes read and 2 written, by a launch of its own. Here
    functions take `copy "w"` instead, which `@update` writes with the parameter: its formula yields one value more, the
    chosen parameter converted, so that where an update does not apply the copy stays too. The conversion is the same, so
    every number is.

    ```mlir
    func.func @micro_last(%w: tensor<4x3xf32> {dt.port = #dt.port<parameter "w">}, ...) {
      %0 = dt.convert %w : tensor<4x3xf32> -> tensor<4x3xbf16>
      %h = dt.contract "bd,df->bf" %x, %0 : ...
    func.func @update(%w, ...) -> (tensor<4x3xf32> {dt.port = #dt.port<parameter "w">}, ...) {
      %new:3 = dt.apply @adamw(...) : ... -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>)
    // becomes
    func.func @micro_last(%w, ..., %copy: tensor<4x3xbf16> {dt.port = #dt.port<copy "w">}) {
      %h = dt.contract "bd,df->bf" %x, %copy : ...
    func.func @update(%w, ...) -> (..., tensor<4x3xbf16> {dt.port = #dt.port<copy "w">}) {
      %new:4 = dt.apply @adamw_with_copy(...) : ... -> (..., tensor<4x3xbf16>)
    func.func @refresh(%w) -> (tensor<4x3xbf16> {dt.port = #dt.port<copy "w">}) {
      %0 = dt.convert %w : tensor<4x3xf32> -> tensor<4x3xbf16>
    ```

    `@refresh` makes all copies; the runtime runs it whenever the host has written parameters. A copy lies as its
    parameter does, and is gathered where that was. A parameter whose new value is no formula's result stays as it is:
    zero1 and zero2 gather it after the formula. Requires `@update`, and no dt.tag.
  }];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def MergeReduction : Pass<"dt-merge-reduction", "mlir::ModuleOp"> {
  let summary = "Makes the last micro-batch of a step and the reductions after it one function.";
  let description = [{
    Before: `@micro` (and `@micro_next`), `@reduce`. After: `@micro_last`, a micro-batch that goes on with what `@reduce`
    did, so that each gradient can be reduced as soon as the backward pass has it. With one micro-batch a step it takes the
    place of `@micro`, with two that of `@micro_next`; with more both stay. What the micro-batch handed to `@reduce` is
    handed on within the function, and narrowed where it is computed if it travels in 16 bits; inputs of `@reduce` become its inputs. Ensures: no `@reduce`.
  }];
  let options = [Option<"accumulation", "accumulation", "int64_t", "1", "micro-batches in a step">];
}

def RecomputeCheap : Pass<"dt-recompute-cheap", "mlir::func::FuncOp"> {
  let summary = "Computes values again for late readers that are cheap to make from a tensor that is kept anyway.";
  let description = [{
    A normalised activation or GELU's output is read by one product of the forward pass and by one of the backward pass.
    Keeping it costs memory for the whole time between; the tensor it comes from is kept for the backward pass anyway.
    So readers of the backward pass (`dt.direction`) get a copy of the operations that make it, right before the first of
    them.

    Before:
    ```mlir
    %y = dt.gelu %x tanh : tensor<8x8xf32>
    %p = dt.contract "ab,bc->ac" %y, %w : ...
    ...
    %d = dt.contract "ab,ac->bc" %y, %r : ...
    ```
    After, for the late reader:
    ```mlir
    %again = dt.barrier %x : tensor<8x8xf32>
    %y2 = dt.gelu %again tanh : tensor<8x8xf32>
    %d = dt.contract "ab,ac->bc" %y2, %r : ...
    ```
    The barrier keeps the copy from being merged with the first. Small values that the copy reads are kept; whether those
    that were gathered from other ranks are gathered again is decided by dt-share-gathers. Parameters are kept anyway: what
    is made of one alone, as its conversion to 16 bits, is made again.
    Values that read more than one tensor of their size, or whose input would be kept for this alone, stay. So does what is
    of layers for which `rules` says `none`, as dt-recompute-layers has them.
    Requires: no dt.tag.
  }];
  let options = [ListOption<"rules", "rules", "std::string", "PATTERN=HOW, over classes of layers">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def RecomputeLayers : Pass<"dt-recompute-layers", "mlir::func::FuncOp"> {
  let summary = "Computes again what the backward pass of a layer reads of its forward pass.";
  let description = [{
    What the backward pass reads of the forward pass is kept for all the time between. Here it is computed again, from little
    that is kept: an operation of the backward pass that reads what does not stay gets a copy of all that makes it, right
    before the first of such readers, which those behind it share.

    `rules` says of layers, by their class, which values stay: a pattern and how its layers are treated, as
    `h.*=full`, or as `h.*=5 full, 7 cheap` of the first five layers and of the seven behind them; of more or fewer layers in
    these proportions. The last that fits counts.

    - `none` and `cheap`: all; dt-recompute-cheap is left to those that are cheap.
    - `regather`: what products, attention and sums over ranks give. Norms, activations and masks are computed again, and
      what was gathered of activations is gathered again: keeping what it was gathered from takes less.
    - `selective`: what the layer multiplies with weights, and what it has from other ranks. All that is made of these
      without weights is computed again: norms, activations, masks and attention.
    - `full`: what enters the layer alone. Collectives and gathers are made again, too.
    - `every:K`: likewise of groups of K layers that follow one another in a stage of a pipeline.
    - `keep contract attn.c_attn + attention attn`: what enters the layer, and what these operations make, as
      passes/keep/recompute/ValueNames.h calls them. Of what is computed where it is read, what it is made of stays.
    - `offload`: all, as with `cheap`; dt-offload-layers has it wait in the host's memory.

    What a layer hands to others stays, as they begin with it. Before, with `h.*=full`:
    ```mlir
    %h = dt.contract "ab,bc->ac" %x, %w {dt.layer = #dt.layer<"h"[0]>} : ...
    %y = dt.gelu %h tanh {dt.layer = #dt.layer<"h"[0]>} : ...
    %p = dt.contract "ab,bc->ac" %y, %v {dt.layer = #dt.layer<"h"[0]>} : ...
    ...
    %g = dt.contract "ab,ac->bc" %y, %d {dt.direction = #dt.direction<weight_gradient>} : ...
    ```
    After:
    ```mlir
    %x2 = dt.barrier %x : ...
    %w2 = dt.barrier %w : ...
    %h2 = dt.contract "ab,bc->ac" %x2, %w2 : ...
    %y2 = dt.gelu %h2 tanh : ...
    %g = dt.contract "ab,ac->bc" %y2, %d {dt.direction = #dt.direction<weight_gradient>} : ...
    ```
    The barriers keep copies from being merged with what they are copies of. No number changes: what is stored
    (passes/analysis/StoredValues.h) is rounded as it was, and where no reader is left for which a value of 16 bits is stored, a
    barrier has it stored nevertheless. Random numbers have their keys. Requires: marks on all operations, no dt.tag.
  }];
  let options = [ListOption<"rules", "rules", "std::string", "PATTERN=HOW, over classes of layers">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def OffloadLayers : Pass<"dt-offload-layers", "mlir::ModuleOp"> {
  let summary = "Has what layers keep for their backward pass wait in the host's memory.";
  let description = [{
    Of layers whose rule is `offload` (dt-recompute-layers), what the backward pass reads of the forward pass leaves for the
    host's memory as soon as it is there, and comes back for its first reader:
    ```mlir
    %h = dt.contract "ab,bc->ac" %x, %w {dt.layer = #dt.layer<"h"[0]>} : ...
    ...
    %e = dt.gelu_grad %d, %h tanh : ...
    ```
    becomes
    ```mlir
    %h = dt.contract "ab,bc->ac" %x, %w {dt.layer = #dt.layer<"h"[0]>} : ...
    %out = dt.offload %h : ...
    ...
    %back = dt.fetch %out : ...
    %e = dt.gelu_grad %d, %back tanh : ...
    ```
    Views, and what kernels compute where they read it, are made again of what comes back. What is much smaller than the
    largest that its layer keeps stays: it costs a copy and saves little. So does what the function returns, state that
    was gathered, and all of the layer that the forward pass ends with, as its backward pass comes at once. When copies
    start and are waited for is dt-split-offloads' to say.

    Requires: marks on all operations; what is computed again is so already. A pipeline of several stages is an error.
  }];
  let options = [ListOption<"rules", "rules", "std::string", "PATTERN=HOW, over classes of layers">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def ShareGathers : Pass<"dt-share-gathers", "mlir::func::FuncOp"> {
  let summary = "Decides which readers of a gathered parameter share a gather, and which have it made again.";
  let description = [{
    Where parameters are stored in pieces (zero3), each read has a gather of its own. A gather costs the network, a
    parameter that stays whole costs memory. So readers that follow one another share one, and what is read again much
    later, as in the backward pass, is gathered again.

    Before, with `ahead` = 1:
    ```mlir
    %u = dt.all_gather %w ...
    %x1 = dt.contract "ab,bc->ac" %x0, %u : ...
    %v = dt.all_gather %w ...
    %x2 = dt.contract "ab,bc->ac" %x1, %v : ...
    ... // two turns of others
    %d = dt.contract "ab,cb->ac" %r, %v : ...
    ```
    After:
    ```mlir
    %u = dt.all_gather %w ...
    %x1 = dt.contract "ab,bc->ac" %x0, %u : ...
    %x2 = dt.contract "ab,bc->ac" %x1, %u : ...
    ...
    %again = dt.barrier %w : ...
    %v = dt.all_gather %again ...
    %d = dt.contract "ab,cb->ac" %r, %v : ...
    ```
    The operations that read gathered parameters take turns, in their order. A reader is one outside kernels, or what a
    kernel will store (passes/analysis/StoredValues.h): what is computed where it is read is followed to these, and copied
    with a gather that is made again, so that no kernel of the backward pass reads what was gathered for the forward
    pass. Readers in kernels with none outside kernels between them are one turn: fusion joins them, or makes them
    neighbours. A reader more than `ahead` turns behind the one before has a new gather, of all that makes it from the
    stored tensor, its conversion to 16 bits among that. The barrier keeps it from being merged with the first.
    `gathers` says otherwise of some parameters, a pattern over their names each: all readers share one
    (`h.*.mlp.c_fc.weight=shared`), or each turn has its own (`=again`), or those of the first layers of a class are treated
    so and those behind otherwise (`h.*=8 again, 4 shared`; of more or fewer layers in these proportions, and of what is in
    no layer the first counts). A parameter is of the layer that gathers it first. The last rule that fits counts.
    Requires: no dt.tag. Ensures: every other operation that is read stays.
  }];
  let options = [Option<"ahead", "ahead", "uint64_t", "2", "turns that a parameter stays whole for its next reader">,
                 ListOption<"gathers", "gathers", "std::string", "PATTERN=HOW, over parameters">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def Cut : Pass<"dt-cut", "mlir::ModuleOp"> {
  let summary = "Cuts the model into the stages of a pipeline, and says what each function is for.";
  let description = [{
    The mesh axis `pp` says how many stages there are; the layers are shared out in their order, as evenly as can be, or as
    the module's `dt.stage_layers` says. Each function becomes one for each stage, a micro-batch two, its forward and its backward pass; equal ones
    become one. Every function says its duty.

    Before, in a module of two layers over `pp` = 2:
    ```mlir
    func.func @micro_last(%w0 {parameter "h.0.w"}, %w1 {parameter "h.1.w"}, %x {input "x"})
        -> ({reduced_gradient "h.0.w"}, {reduced_gradient "h.1.w"})
    ```
    After:
    ```mlir
    func.func @micro_last.forward.0(%w0, %x) -> ({stash ...}, {sent "h.0"})
        attributes {dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = last>}
    func.func @micro_last.backward.0(%w0, {stash ...}, {received_gradient "h.1"}) -> ({reduced_gradient "h.0.w"})
    func.func @micro_last.forward.1(%w1, {received "h.0"}) -> ({stash ...})
    func.func @micro_last.backward.1(%w1, {stash ...}, {received "h.0"}) -> ({sent_gradient "h.1"}, {reduced_gradient "h.1.w"})
    ```
    Where operations go: passes/keep/StageHomes.h. What a parameter that several stages read gets as its gradient is added up
    over them; what the host is told, and what an update needs of all gradients, is known to all stages. The module gets
    `dt.stages`, each stage's layers. Requires: marks on all operations.
  }];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def SplitGradients : Pass<"dt-split-gradients", "mlir::func::FuncOp"> {
  let summary = "Makes and reduces the gradient of a weight by parts of its rows.";
  let description = [{
    A gradient can be reduced once it is made. That of the head, a sixth of a backward pass, is the first that is made, and
    until then nothing moves. `rules` says by how many parts of its rows a parameter's gradient is made and reduced, a
    pattern over names each (`wte.weight=4`); the last that fits counts.

    Before, with `w=2`:
    ```mlir
    %g = dt.contract "sv,sd->vd" %e, %x : tensor<8x5xf32>, tensor<8x3xf32> -> tensor<5x3xf32>
    %r = dt.all_reduce sum %g over [dp] : tensor<5x3xf32> -> tensor<5x3xf32>
    ```
    After:
    ```mlir
    %e0 = dt.slice %e at [0, 0] : tensor<8x5xf32> -> tensor<8x2xf32>
    %g0 = dt.contract "sv,sd->vd" %e0, %x : tensor<8x2xf32>, tensor<8x3xf32> -> tensor<2x3xf32>
    %r0 = dt.all_reduce sum %g0 over [dp] : tensor<2x3xf32> -> tensor<2x3xf32>
    %e1 = dt.slice %e at [0, 2] : tensor<8x5xf32> -> tensor<8x3xf32>
    %g1 = dt.contract "sv,sd->vd" %e1, %x : tensor<8x3xf32>, tensor<8x3xf32> -> tensor<3x3xf32>
    %r1 = dt.all_reduce sum %g1 over [dp] : tensor<3x3xf32> -> tensor<3x3xf32>
    %r = dt.concat %r0, %r1 along 0 : ... -> tensor<5x3xf32>
    ```
    It is done to products of which nothing else reads the result, and that ranks sum up element by element. No sum
    has another order, so no bit changes. Requires: no dt.tag.
  }];
  let options = [ListOption<"rules", "rules", "std::string", "PATTERN=PARTS, over parameters">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def SplitProducts : Pass<"dt-split-products", "mlir::func::FuncOp"> {
  let summary = "Does layers in parts of the batch, so that a part's collectives can run beside another's products.";
  let description = [{
    With tensor parallelism a product waits for all of its gathered operand, and the next layer for all of its summed up
    result. But samples of a batch do not depend on each other. `rules` says in how many parts layers are to be done, by
    their class: `h.*=2`; the last that fits counts.

    Before, with `h.*=2`:
    ```mlir
    %g = dt.all_gather %x along 1 over [tp] : tensor<4x8x6xf32> -> tensor<4x16x6xf32>
    %y = dt.contract "bsd,df->bsf" %g, %w : ... -> tensor<4x16x5xf32>
    ...
    %d = dt.contract "bsd,bsf->df" %g, %e : ... // the weight's gradient
    ```
    After:
    ```mlir
    %x0 = dt.slice %x at [0, 0, 0] : tensor<4x8x6xf32> -> tensor<2x8x6xf32>
    %g0 = dt.all_gather %x0 along 1 over [tp] : tensor<2x8x6xf32> -> tensor<2x16x6xf32>
    %x1 = dt.slice %x at [2, 0, 0] : ...
    %g1 = dt.all_gather %x1 along 1 over [tp] : ...
    %y0 = dt.contract "bsd,df->bsf" %g0, %w : ... -> tensor<2x16x5xf32>
    %y1 = dt.contract "bsd,df->bsf" %g1, %w : ...
    ...
    %g = dt.concat %g0, %g1 along 0 : ... -> tensor<4x16x6xf32>
    %d = dt.contract "bsd,bsf->df" %g, %e : ...
    ```
    From each collective of an activation on, along its first dimension, all that makes and reads it is split whose
    factors say that it treats each index along that alone, in the forward pass and for the gradients of activations. What
    sums up along it, as the gradient of a weight, reads the whole. So every number is the same, in every bit. Where the
    size does not divide, nothing is split; what depends on an element's place in the whole stays whole where a part
    cannot be told its own. Each operation of a part says of which (`dt.part`). What order they run in is for *when*
    (dt-interleave-parts). Requires: marks on all operations, no dt.tag.
  }];
  let options = [ListOption<"rules", "rules", "std::string", "PATTERN=PARTS, over classes of layers">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def SendFirst : Pass<"dt-send-first", "mlir::func::FuncOp"> {
  let summary = "Makes what a stage of a pipeline sends before what it keeps to itself.";
  let description = [{
    The stage before waits for the gradient of what it sent, and nobody waits for the gradients of this stage's own
    parameters. So the way to what is sent comes first, and all else behind it, in the order in which it was.

    Before:
    ```mlir
    %g2 = dt.contract "ab,ac->bc" %x2, %d2 : ... // of a weight
    %d1 = dt.contract "ac,bc->ab" %d2, %w2 : ...
    %g1 = dt.contract "ab,ac->bc" %x1, %d1 : ...
    %d0 = dt.contract "ac,bc->ab" %d1, %w1 : ...
    return %d0, %g1, %g2 : ... // sent_gradient, gradient, gradient
    ```
    After:
    ```mlir
    %d1 = dt.contract "ac,bc->ab" %d2, %w2 : ...
    %d0 = dt.contract "ac,bc->ab" %d1, %w1 : ...
    %g2 = dt.contract "ab,ac->bc" %x2, %d2 : ...
    %g1 = dt.contract "ab,ac->bc" %x1, %d1 : ...
    ```
    The price is memory: the gradients of a stage's activations stay until those of its weights are made. The first stage,
    which has most micro-batches under way, sends no gradient and pays nothing. Where collectives lie on the way, as with
    tensor parallelism, nothing moves: they run beside the gradients of weights, and each micro-batch would wait for them.
    Ensures: values stay the same.
  }];
}

def VerifyKeep : Pass<"dt-verify-keep", "mlir::ModuleOp"> {
  let summary = "Checks the contract of *keep*.";
  let description = [{
    K1: no dt.tag. K2: in a function with marks every operation that is read, but constants, has a direction. K3: of a model that has been cut
    each function says its stage, and none does both passes. K4: what belongs to a micro-batch has one type in all functions
    of a stage. K5: what a function takes of it (stash, received) the stage itself, or the neighbour, hands on in that type.
    K6: what is handed on is taken.
  }];
}

#endif // DTC_KEEP_PASSES_TD
