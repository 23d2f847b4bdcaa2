// Passes of *when*: in which order, and in which memory?
#ifndef DTC_SCHEDULE_PASSES_TD
#define DTC_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def InterleaveParts : Pass<"dt-interleave-parts", "mlir::func::FuncOp"> {
  let summary = "Lets parts of layers take turns, so that one computes while what another sends is under way.";
  let description = [{
    Layers that were split (dt-split-products) do each thing for one part after the other, and each part waits for its
    collectives by itself. This pass makes a new order with a list schedule that assumes one processor and one link: the
    part that can continue first does so, and among several the one that has something to move soonest. Each product
    counts the same as each collective, and sizes do not count, so that a shrunk program has the same order. Work that
    is not in parts, such as the gradients of weights, runs while all parts wait, and at the latest when the parts are
    two layers ahead of it.

    Before, with two layers, each of two products between a gather and a reduce-scatter:
    ```mlir
    %g0 = dt.all_gather %x0 {dt.part = 0}
    %g1 = dt.all_gather %x1 {dt.part = 1}
    %a0 = dt.contract %g0, %w {dt.part = 0}
    %a1 = dt.contract %g1, %w {dt.part = 1}
    %b0 = dt.contract %a0, %v {dt.part = 0}
    %b1 = dt.contract %a1, %v {dt.part = 1}
    %r0 = dt.reduce_scatter %b0 {dt.part = 0}
    %r1 = dt.reduce_scatter %b1 {dt.part = 1}
    ...
    ```
    After:
    ```mlir
    %g0, %g1, %a0, %b0, %r0
    %a1     // while %r0 is under way
    %g2     // the next layer's of part 0, while ...
    %b1, %r1
    ...
    ```
    Each part keeps its order, and so does work that is not in parts, except for what a part needs. A function without
    parts stays as it is. Requires: no futures of these collectives yet.
  }];
}

def GatherAhead : Pass<"dt-gather-ahead", "mlir::func::FuncOp"> {
  let summary = "Gathers parameters some of their readers ahead of time.";
  let description = [{
    Where parameters are stored in pieces (zero3), the operations that read gathered ones take turns, in their order. A
    gather starts when the reader `ahead` turns before its first reader begins, so that it runs during `ahead` of them
    and everything in between.

    Before, with `ahead` = 1:
    ```mlir
    %u = dt.all_gather %a ...
    %x1 = dt.contract "ab,bc->ac" %x0, %u : ...
    %e = dt.exp %x1 : ...
    %v = dt.all_gather %b ...
    %x2 = dt.contract "ab,bc->ac" %e, %v : ...
    ```
    After:
    ```mlir
    %u = dt.all_gather %a ...
    %v = dt.all_gather %b ...
    %x1 = dt.contract "ab,bc->ac" %x0, %u : ...
    %e = dt.exp %x1 : ...
    %x2 = dt.contract "ab,bc->ac" %e, %v : ...
    ```
    Which readers share a gather was decided before (dt-share-gathers), with the same number of turns. So at each turn
    nothing is gathered that is not read at it or at one of the next `ahead`: that limits what is whole at a time. Turns
    depend on the model and not on its sizes, so a shrunk program has the same collectives in the same order. Requires:
    no futures of these collectives yet. Ensures: the order of all other operations is kept, and the gathers.
  }];
  let options = [Option<"ahead", "ahead", "uint64_t", "2", "turns; 0: each right before its reader">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def SplitOffloads : Pass<"dt-split-offloads", "mlir::func::FuncOp"> {
  let summary = "Splits copies to the host and back into a start and a wait, a layer apart.";
  let description = [{
    Before, in layers 0 to 2 of the forward pass, and 2 to 0 of the backward pass:
    ```mlir
    %h = dt.launch @f(%x)            // layer 0
    %out = dt.offload %h
    %y = dt.launch @f(%h)            // layer 1
    %z = dt.launch @f(%y)            // layer 2
    ...
    %e = dt.launch @b(%d)            // layer 1
    %back = dt.fetch %out
    %g = dt.launch @b(%e, %back)     // layer 0
    ```
    After:
    ```mlir
    %h = dt.launch @f(%x)
    %o = dt.offload %h : tensor<...> -> !dt.future<...>
    %y = dt.launch @f(%h)
    %out = dt.wait %o
    %z = dt.launch @f(%y)
    ...
    %b = dt.fetch %out : tensor<...> -> !dt.future<...>
    %e = dt.launch @b(%d)
    %back = dt.wait %b
    %g = dt.launch @b(%e, %back)
    ```
    A copy to the host starts where it is and is waited for when the layer after its own is over, or the forward pass:
    until then its source stays. A copy back starts when the backward pass begins the layer before the one that reads it
    first, which waits for it. So no more than two layers' values of those that wait in the host's memory are in the
    device's memory at a time. Ensures: the order of all other operations is kept.
  }];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def SplitCollectives : Pass<"dt-split-collectives", "mlir::func::FuncOp"> {
  let summary = "Splits each collective into a start as early as possible and a wait as late as possible.";
  let description = [{
    Before: `%y = dt.all_reduce sum %x over [...] : tensor<8xf32> -> tensor<8xf32>`
    After:
    ```mlir
    %f = dt.all_reduce sum %x over [...] : tensor<8xf32> -> !dt.future<tensor<8xf32>>
    %y = dt.wait %f : !dt.future<tensor<8xf32>> -> tensor<8xf32>
    ```
    A collective of a computed value starts right after what computes it; one of a parameter, converted or not, stays
    where it is. The order of all other operations is kept, except that views go where they are read, and what reads
    only the awaited value comes right after a wait that is not delayed any longer. What a collective reads must stay
    until its wait. So before the sources of those under way would be larger than the largest of all, the oldest is
    waited for. What is reduced where it is returned, parameters, and a table to which rows are added later stay anyway
    and do not count. Ensures: every collective's result is a future.
  }];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def BucketCollectives : Pass<"dt-bucket-collectives", "mlir::ModuleOp"> {
  let summary = "Moves starts that go together next to each other.";
  let description = [{
    A start costs a latency, however little it moves. So several reductions of gradients, or gathers of parameters, of
    one kind, group and type may be parts of one start, a bucket (docs/command-list.md): no copies are made, and no bit
    changes. Each start of a bucket goes to where the bucket's last one is, and the waits for them to where the first of
    these is. Rules say which go together (docs/choices.md), or it follows from a size in bytes or from costs
    (passes/schedule/buckets/ChooseBuckets.h). A start that comes after the first wait for others is never joined to
    them.

    Before:
    ```mlir
    %f = dt.all_reduce sum %x over ["dp"]
    %y = dt.launch @g(...)
    %g = dt.all_reduce sum %y over ["dp"]
    %x1 = dt.wait %f
    %z = dt.launch @h(%x1)
    %y1 = dt.wait %g
    ```
    After:
    ```mlir
    %y = dt.launch @g(...)
    %f = dt.all_reduce sum %x over ["dp"] {dt.bucket = 0}
    %g = dt.all_reduce sum %y over ["dp"] {dt.bucket = 0}
    %x1 = dt.wait %f
    %y1 = dt.wait %g
    %z = dt.launch @h(%x1)
    ```
    Starts that are still next to each other when commands are written become one command, as do their waits
    (passes/schedule/launches/JoinStarts.h); if an order pulls them apart, what runs in between makes two of them.
    Requires: futures. Ensures: the order of all other operations is kept.
  }];
  let options = [Option<"text", "rules", "std::string", "\"\"", "a text of choices, of which bucket and bucket_bytes count">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def CopyConflictingResults : Pass<"dt-copy-conflicting-results", "mlir::ModuleOp"> {
  let summary = "Copies results that cannot be written straight into the tensor they are returned as.";
  let description = [{
    A function's result lives in the tensor that its port names. A value is computed directly there unless it is only
    a part of a buffer, is returned twice, belongs to another tensor, or would overwrite old contents that are still
    read. Ensures: every other result can be written there.
  }];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def InsertTransfers : Pass<"dt-insert-transfers", "mlir::ModuleOp"> {
  let summary = "Sends what stages of a pipeline hand on, and receives it.";
  let description = [{
    A pass that returns a port of kind `sent` or `sent_gradient` sends it as soon as it is there; one that takes what
    another stage has sent waits for it where it is first read. Beginning to receive, and waiting until what was sent is
    free again, are functions of their own, so that a timetable says when. Collectives among stages, such as those of a
    tied embedding's gradient, come after what the function sends.

    Before:
    ```mlir
    func.func @forward.1(%x {received "h.0"}) -> ({sent "h.1"}) {
      %y = dt.launch @f(%x)
      return %y
    ```
    After:
    ```mlir
    func.func @forward.1(%x {received "h.0"}) -> ({sent "h.1"}) {
      %a = dt.await %x of #dt.port<received "h.0"> : tensor<8xf32>
      %y = dt.launch @f(%a)
      dt.send %y as #dt.port<sent "h.1"> by 1 over [#dt.axis_ref<"pp", 1, 0>] : tensor<8xf32>
      return %y
    func.func @forward.1.receive() -> ({received "h.0"}) attributes {dt.duty = #dt.duty<transfer, ...>} {
      %x = dt.recv #dt.port<received "h.0"> by -1 over [#dt.axis_ref<"pp", 1, 0>] : tensor<8xf32>
    func.func @forward.1.sent(%y {sent "h.1"}) attributes {dt.duty = #dt.duty<transfer, ...>} {
      dt.await %y of #dt.port<sent "h.1"> : tensor<8xf32>
    ```
    Passes with equal ports share these functions. In a module with `dt.early_update`, a forward pass that receives also
    has a function `.drop`, which only waits for what it would read:
    ```mlir
    func.func @forward.1.drop(%x {received "h.0"}) attributes {dt.duty = #dt.duty<transfer, ...>} {
      dt.await %x of #dt.port<received "h.0"> : tensor<8xf32>
    ```
    Requires: what is returned is computed where it has to be (dt-copy-conflicting-results).
  }];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def KeepState : Pass<"dt-keep-state", "mlir::ModuleOp"> {
  let summary = "Keeps the state from before an update, which may have to be undone.";
  let description = [{
    Each function that is done once a step and returns state (the update of each rank) gets two others: `.keep` copies
    the state to memory of its own, `.restore` copies it back.

    Before:
    ```mlir
    func.func @update.0(%w {parameter "w"}, %g {reduced_gradient "w"}) -> ({parameter "w"})
    ```
    After, with it:
    ```mlir
    func.func @update.0.keep(%w {parameter "w"}) -> ({kept "parameter w"}) {
      %k = dt.copy %w : tensor<8xf32>
    func.func @update.0.restore(%k {kept "parameter w"}) -> ({parameter "w"}) {
      %w = dt.copy %k : tensor<8xf32>
    ```
    Requires: all functions with their duties (dt-cut), in the form that dt-how leaves.
  }];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def BuildTimetables : Pass<"dt-build-timetables", "mlir::ModuleOp"> {
  let summary = "Says which function of a rank runs when, and in which places of memory.";
  let description = [{
    `kind` is a timetable (passes/choices/PipelineTimetable.h): a name, or the rows of a CSV file. Each receive is begun
    one pass ahead; a send is waited for when a third one of its kind would be sent, or when the step ends
    (passes/schedule/timetables/AddTransfers.h). What belongs to a micro-batch under way (stashes, sent, received) takes the lowest place that is free from
    the entry that makes it to the last that needs it, by itself for each kind. Of a stage's functions for the first, the middle and the last micro-batch, the
    timetable's first pass of a kind runs the first one and its last pass the last one, whichever micro-batches they are of. Where a
    stage does not add its micro-batches in ascending order, there is a warning, and the module gets `dt.sums_by_timetable`.
    With the kind `pipedream` steps overlap (timing/timetables/pipedream.h): the entries are those of one running step,
    each for a step that many later, and what belongs to a step under way takes turns in as many places as steps need it
    at once. With `overlap-steps` a step's entries are turned (passes/schedule/timetables/TurnedStep.h): a running step
    begins the next one behind its update, and a timetable "redo" says what ranks do where the update was wrong. The
    module gets `dt.timetables`:
    ```mlir
    #dt.timetable<"step", rank = 0, [<@micro.forward.0, micro_batch = 0>, <@micro_last.forward.0, micro_batch = 1, places = ...
    ```
    Requires: functions with their duties (dt-cut), transfers.
  }];
  let options = [Option<"accumulation", "accumulation", "int64_t", "1", "micro-batches in a step">,
                 Option<"kind", "kind", "std::string", "\"1f1b\"", "the timetable">,
                 Option<"overlapSteps", "overlap-steps", "bool", "false", "steps begin behind an early update">,
                 Option<"warnsOfBubble", "warn-of-bubble", "bool", "true", "warn of fewer micro-batches than ranks">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def OrderCommands : Pass<"dt-order-commands", "mlir::ModuleOp"> {
  let summary = "Moves operations as a choice says.";
  let description = [{
    Each rule moves one class of operations to right before or after another (docs/choices.md), starting from the order
    that the earlier passes have given. Views go where they are read.

    Before: `dt.all_reduce`, then `dt.launch @f`. After, with
    `rules = "[[order]]\nmove = 'update all_reduce h.*.w'\nafter = 'forward launch h.*.w'"`: in each layer the launch
    comes first.
    An order in which an operation comes before another that it needs is an error that names the two: it reads the
    other's result, or overwrites what the other reads. So is one in which two stages start what they share in different
    orders. Requires: all that other passes of the phase insert, and timetables.
  }];
  let options = [Option<"text", "rules", "std::string", "\"\"", "a text of choices, of which the order counts">];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

def PlanMemory : Pass<"dt-plan-memory", "mlir::ModuleOp"> {
  let summary = "Gives every tensor its place in a rank's arena.";
  let description = [{
    Before: `%y = dt.launch @exp_0(%x) : (tensor<17xf32>) -> tensor<17xf32>`
    After: the same, in a function with
    `dt.offsets = {arguments = array<i64: 0>, results = array<i64: 128>, values = array<i64: 128>}`, in a module with
    `dt.arena = {bytes = 2097280, shared = 2097152}` (passes/schedule/memory/ArenaLayout.h).
    Tensors that functions hand to each other live for the whole run; others share memory where their lifetimes do not
    overlap. An arena larger than `limit` is an error that says what is alive at its peak.
    Requires: launches, library calls, views, collectives and waits, in their order.
  }];
  let options = [Option<"limit", "limit", "uint64_t", "0", "greatest size of the arena in bytes; 0: any">];
}

def VerifyWhen : Pass<"dt-verify-when", "mlir::ModuleOp"> {
  let summary = "Proves that no two tensors that are alive together share memory, and that timetables are in order.";
  let description = [{
    Works out from the order of operations how long each tensor is needed, and compares that with the places that
    dt-plan-memory recorded.
    M1: module, ports and operations say their places. M2: a port has one place in all functions. M3: places begin
    within the arena, at multiples of what the target says. M4: no tensor overlaps one that is still alive, unless its
    operation writes each element over the one it reads for the last time. M5: what collectives read and write is
    visible to the peers; what they read stays until the wait. M6: what a function returns is where its port says. M7:
    what kernels read begins at the multiples that the target's kernels expect. M8: what belongs to a micro-batch under
    way is within one place of a space, and nothing crosses places. M9: the timetables of each stage are in order
    (runtime/abi/timetable_check.h): every micro-batch has each pass in its turn, backward passes come in the order of
    the micro-batches, and what an entry finds in a place was left there for its micro-batch. M10: what dt.offload
    makes, and only that, is in the host's memory, which only dt.fetch reads. `accumulation` micro-batches make a step;
    0: as many as the timetable names.
  }];
  let options = [Option<"accumulation", "accumulation", "int64_t", "0", "micro-batches in a step; 0: any number">];
}

#endif // DTC_SCHEDULE_PASSES_TD
