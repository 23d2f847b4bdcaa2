// Passes of *keep*: what lives from forward to backward, and what is recomputed?
#ifndef DTC_KEEP_PASSES_TD
#define DTC_KEEP_PASSES_TD

include "mlir/Pass/PassBase.td"

def CompleteMarks : Pass<"dt-complete-marks", "mlir::func::FuncOp"> {
  let summary = "Gives operations that passes have made the marks of what they were made for.";
  let description = [{
    Differentiation marks every operation (`dt.direction`), frontends their layers (`dt.layer`). What later passes make
    without marks, such as a collective's padding or a copy, belongs to what reads it: to the earliest direction among
    its readers, since whoever waits for a reader waits for it too; or, if nothing marked reads it, to what it reads.
    Ensures: in a function with marks, every operation except constants has a direction.
  }];
}

def DropTags : Pass<"dt-drop-tags", "mlir::func::FuncOp"> {
  let summary = "Replaces every dt.tag by its operand.";
  let description = [{
    A tag says where in the model a value is, for a strategy to place it. Once the value is placed, the tag is only a
    name, and it must not make the kernels of equal layers differ. Ensures: no dt.tag.
  }];
}

def GatherRows : Pass<"dt-gather-rows", "mlir::ModuleOp"> {
  let summary = "Moves an embedding's rows between ranks instead of the embedding and its gradient.";
  let description = [{
    The backward pass comes to an embedding last, so nothing hides the time that its gradient takes between ranks. But a
    batch adds only the rows of its tokens. Where the embedding is also the head's matrix, or there were micro-batches
    before, the rest is there early; otherwise it is zero. A sum over ranks is linear: the rest is reduced as soon as it
    is there, and only the rows move at the end. The head's product that makes it comes before the product for the
    head's input, unless other ranks wait for that one. In a pipeline, gradients of several micro-batches are summed up
    over ranks behind all passes, with their rows.

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
    It does the same where a table is stored in parts of its rows on several ranks, as with ZeRO-3, and is gathered for
    lookups: each rank looks up its part of everybody's rows, and no bit changes. Before:
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
    It is done where a rank sends 1 MiB or more for a parameter in these ways and less than half of that for its rows,
    or as `rows` says for some parameters, each a pattern over names (`wte.weight=gathered`, `=reduced`); the last that
    fits counts. What was decided where no rule fits is recorded (`dt.rows`). The operations' factors say how they add,
    and what becomes of their operands where the result stays in parts; see passes/keep/rows/LateRows.h and
    LookedUpRows.h. For a gradient the order of the sum changes, and with it the last bits. Requires: no dt.tag between
    the two.
  }];
  let options = [ListOption<"rows", "rows", "std::string", "PATTERN=gathered or PATTERN=reduced">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def KeepCopies : Pass<"dt-keep-copies", "mlir::ModuleOp"> {
  let summary = "Keeps parameters from step to step in the type that products compute in.";
  let description = [{
    Mixed precision converts each parameter in each micro-batch: 4 bytes read and 2 written, in a launch of its own.
    Here functions take `copy "w"` instead, which `@update` writes along with the parameter: its formula yields one more
    value, the chosen parameter converted, so that where an update does not apply the copy stays too. The conversion is
    the same, so every number is.

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

    `@refresh` makes all copies; the runtime runs it whenever the host has written parameters. A copy is placed like its
    parameter, and is gathered where the parameter was. A parameter whose new value is not a formula's result stays as
    it is: zero1 and zero2 gather it after the formula. Requires `@update`, and no dt.tag.
  }];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def MergeReduction : Pass<"dt-merge-reduction", "mlir::ModuleOp"> {
  let summary = "Makes the last micro-batch of a step and the reductions after it one function.";
  let description = [{
    Before: `@micro` (and `@micro_next`), `@reduce`. After: `@micro_last`, a micro-batch that continues with what
    `@reduce` did, so that each gradient can be reduced as soon as the backward pass has it. With one micro-batch per
    step it replaces `@micro`, with two it replaces `@micro_next`; with more both stay. What the micro-batch handed to
    `@reduce` is handed on within the function, and narrowed where it is computed if it travels in 16 bits; inputs of
    `@reduce` become its inputs. Ensures: no `@reduce`.
  }];
  let options = [Option<"accumulation", "accumulation", "int64_t", "1", "micro-batches in a step">];
}

def RecomputeCheap : Pass<"dt-recompute-cheap", "mlir::func::FuncOp"> {
  let summary = "Recomputes, for late readers, values that are cheap to make from a tensor that is kept anyway.";
  let description = [{
    A normalised activation or GELU's output is read by one product of the forward pass and by one of the backward pass.
    Keeping it costs memory for the whole time between; the tensor it comes from is kept for the backward pass anyway.
    So readers of the backward pass (`dt.direction`) get a copy of the operations that make it, right before the first
    of them.

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
    The barrier keeps the copy from being merged with the first. Small values that the copy reads are kept;
    dt-share-gathers decides whether those that were gathered from other ranks are gathered again. Parameters are kept
    anyway: what is made from only one of them, such as its conversion to 16 bits, is recomputed.
    Values that read more than one tensor of their size, or whose input would be kept only for this, stay. So do the
    values of layers for which `rules` (see dt-recompute-layers) says `none`.
    Requires: no dt.tag.
  }];
  let options = [ListOption<"rules", "rules", "std::string", "PATTERN=HOW, over classes of layers">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def RecomputeLayers : Pass<"dt-recompute-layers", "mlir::func::FuncOp"> {
  let summary = "Recomputes what the backward pass of a layer reads from its forward pass.";
  let description = [{
    What the backward pass reads from the forward pass is kept for all the time between. Here it is recomputed from the
    little that is kept: an operation of the backward pass that reads a value which does not stay gets a copy of all
    that makes it, right before the first such reader; later readers share the copy.

    `rules` says for layers, by their class, which values stay. A rule is a pattern and how its layers are treated:
    `h.*=full`, or `h.*=5 full, 7 cheap` for the first five layers and the seven after them; more or fewer layers are
    divided in these proportions. The last that fits counts.

    - `none` and `cheap`: all; dt-recompute-cheap is left to those that are cheap.
    - `regather`: what products, attention and sums over ranks give. Norms, activations and masks are recomputed, and
      gathered activations are gathered again: keeping what they were gathered from takes less memory.
    - `selective`: what the layer makes by multiplying with weights, and what it gets from other ranks. All that is made
      from these without weights is recomputed: norms, activations, masks and attention.
    - `full`: only what enters the layer. Collectives and gathers are repeated, too.
    - `every:K`: likewise for groups of K consecutive layers in a stage of a pipeline.
    - `keep contract attn.c_attn + attention attn`: what enters the layer, and what these operations make, named as in
      passes/keep/recompute/ValueNames.h. For a value that is computed where it is read, what it is made from stays.
    - `offload`: all, as with `cheap`; dt-offload-layers moves it to the host's memory meanwhile.

    What a layer hands to others stays, since they begin with it. Before, with `h.*=full`:
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
    (passes/analysis/StoredValues.h) is rounded as it was, and where no reader is left for which a 16-bit value would be
    stored, a barrier forces it to be stored nevertheless. Random numbers have their keys. Requires: marks on all
    operations, no dt.tag.
  }];
  let options = [ListOption<"rules", "rules", "std::string", "PATTERN=HOW, over classes of layers">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def OffloadLayers : Pass<"dt-offload-layers", "mlir::ModuleOp"> {
  let summary = "Moves what layers keep for their backward pass to the host's memory meanwhile.";
  let description = [{
    In layers whose rule is `offload` (dt-recompute-layers), what the backward pass reads from the forward pass is
    copied to the host's memory as soon as it is there, and comes back for its first reader:
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
    Views, and what kernels compute where they read it, are recomputed from what comes back. What is much smaller than
    the largest value that its layer keeps stays on the device: it would cost a copy and save little. So do what the
    function returns, state that was gathered, and everything in the last layer of the forward pass, since its backward
    pass comes at once. dt-split-offloads decides when copies start and when they are waited for.

    Requires: marks on all operations; recomputation has been inserted already. A pipeline of several stages is an
    error.
  }];
  let options = [ListOption<"rules", "rules", "std::string", "PATTERN=HOW, over classes of layers">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def ShareGathers : Pass<"dt-share-gathers", "mlir::func::FuncOp"> {
  let summary = "Decides which readers of a gathered parameter share a gather, and which gather it again.";
  let description = [{
    Where parameters are stored in pieces (zero3), each read has a gather of its own. A gather costs network time, a
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
    kernel will store (passes/analysis/StoredValues.h): what is computed where it is read is followed to these, and
    copied together with a repeated gather, so that no kernel of the backward pass reads what was gathered for the
    forward pass. Readers in kernels with none outside kernels between them are one turn: fusion joins them, or makes
    them neighbours. A reader more than `ahead` turns after the one before gets a new gather, with all that makes it
    from the stored tensor, including its conversion to 16 bits. The barrier keeps it from being merged with the first.
    `gathers` sets something else for some parameters, each by a pattern over names: all readers share one gather
    (`h.*.mlp.c_fc.weight=shared`), or each turn has its own (`=again`), or the first layers of a class are treated in
    one way and those after them in another (`h.*=8 again, 4 shared`; more or fewer layers are divided in these
    proportions, and for what is in no layer the first counts). A parameter belongs to the layer that gathers it first.
    The last rule that fits counts. Requires: no dt.tag. Ensures: every other operation that is read stays.
  }];
  let options = [Option<"ahead", "ahead", "uint64_t", "2", "turns that a parameter stays whole for its next reader">,
                 ListOption<"gathers", "gathers", "std::string", "PATTERN=HOW, over parameters">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def Cut : Pass<"dt-cut", "mlir::ModuleOp"> {
  let summary = "Cuts the model into the stages of a pipeline, and says what each function is for.";
  let description = [{
    The mesh axis `pp` says how many stages there are; the layers are distributed over them in order, as evenly as
    possible or as the module's `dt.stage_layers` says. Each function becomes one function per stage, and a micro-batch
    two, its forward and its backward pass; equal ones are merged. Every function says its duty.

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
    In a module with `dt.splits_backward` the backward pass becomes two, `micro_last.inputs.1` and `micro_last.weights.1`.
    What passes keep for them is then a `stash`, a `weight_stash` or a `gradient_stash`, by how long it stays
    (passes/keep/cut/StashKinds.h).

    Where operations go: passes/keep/cut/StageHomes.h. Where the module's `dt.crossing` says `sliced` for a cut, or says
    nothing and that is faster, what all ranks over other mesh axes have crosses in parts (passes/keep/cut/Crossings.h):
    ```mlir
    %p = dt.shard_slice %h along 0 over [tp] : tensor<4x8xf32> -> tensor<2x8xf32> // sent "h.0"
    ```
    and in the next stage:
    ```mlir
    %h = dt.all_gather %p along 0 over [tp] : tensor<2x8xf32> -> tensor<4x8xf32>  // of what was received
    ```
    A conversion to a narrower type that alone reads a value of an earlier stage is done there. The gradient of a
    parameter that several stages read is added up over them; all stages know what the host is told, and what an update
    needs to know about all gradients. The module gets `dt.stages`, each stage's layers, and `dt.crossing`, how each cut
    is crossed, if anything could be sliced. With `dt.asynchronous` stages update by themselves: a forward pass stashes
    the parameters that its backward pass reads, except in the last stage, and what the last stage's forward pass makes
    for the update goes back through all stages. Requires: marks on all operations; for slices, placements on the ports.
  }];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def SplitGradients : Pass<"dt-split-gradients", "mlir::func::FuncOp"> {
  let summary = "Makes and reduces the gradient of a weight by parts of its rows.";
  let description = [{
    A gradient can be reduced once it is made. The head's gradient, a sixth of a backward pass, is the first that is
    made, and until then nothing moves. `rules` says in how many parts of its rows a parameter's gradient is made and
    reduced, each with a pattern over names (`wte.weight=4`); the last that fits counts.

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
    It is done to products whose result nothing else reads, and which ranks sum up element by element. No sum changes
    its order, so no bit changes. Requires: no dt.tag.
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
    Starting at each collective of an activation, along its first dimension, this splits all operations that make and
    read it and whose factors say that they treat each index along that dimension independently, in the forward pass and
    for the gradients of activations. What sums up along it, such as the gradient of a weight, reads the whole. So every
    number stays the same, in every bit. Where the size does not divide, nothing is split; what depends on an element's
    place in the whole stays whole if a part cannot know its own place. Each operation of a part says which part it
    belongs to (`dt.part`). *When* decides in which order they run (dt-interleave-parts). Requires: marks on all
    operations, no dt.tag.
  }];
  let options = [ListOption<"rules", "rules", "std::string", "PATTERN=PARTS, over classes of layers">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def SendFirst : Pass<"dt-send-first", "mlir::func::FuncOp"> {
  let summary = "Makes what a stage of a pipeline sends before what it keeps to itself.";
  let description = [{
    The stage before waits for the gradient of what it sent, and nobody waits for the gradients of this stage's own
    parameters. So whatever leads to what is sent comes first, and everything else after it, in its previous order.

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
    The price is memory: the gradients of a stage's activations stay until those of its weights are made. The first
    stage, which has the most micro-batches under way, sends no gradient and pays nothing. Where collectives are on the
    way, as with tensor parallelism, nothing moves: they run during the gradients of weights, and each micro-batch would
    wait for them. Ensures: values stay the same.
  }];
}

def VerifyKeep : Pass<"dt-verify-keep", "mlir::ModuleOp"> {
  let summary = "Checks the contract of *keep*.";
  let description = [{
    K1: no dt.tag. K2: in a function with marks every operation that is read, except constants, has a direction. K3: if
    the model has been cut, each function says its stage, and none does both passes. K4: what belongs to a micro-batch
    has one type in all functions of a stage. K5: what a function takes of it (stashes, received) is handed on in that
    type by the stage itself or by its neighbour. K6: what is handed on is taken.
  }];
}

#endif // DTC_KEEP_PASSES_TD
