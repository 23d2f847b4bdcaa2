// Mesh, sharding and parameter attributes, and the future type.
#ifndef DT_ATTRIBUTES_TD
#define DT_ATTRIBUTES_TD

include "dialect/IR/Dialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class DT_Attr<string name, string attrMnemonic> : AttrDef<DT_Dialect, name> { let mnemonic = attrMnemonic; }

def DT_ReductionKind : I32EnumAttr<"ReductionKind", "how values combine", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">]> {
  let cppNamespace = "::mlir::dt";
}

def DT_CompareDirection : I32EnumAttr<"CompareDirection", "how elements are compared", [
    I32EnumAttrCase<"EQ", 0, "eq">, I32EnumAttrCase<"NE", 1, "ne">, I32EnumAttrCase<"LT", 2, "lt">,
    I32EnumAttrCase<"LE", 3, "le">, I32EnumAttrCase<"GT", 4, "gt">, I32EnumAttrCase<"GE", 5, "ge">]> {
  let cppNamespace = "::mlir::dt";
}

def DT_AxisAttr : DT_Attr<"Axis", "axis"> {
  let summary = "A named mesh axis and its size.";
  let parameters = (ins "StringAttr":$name, "int64_t":$size);
  let assemblyFormat = "`<` $name `=` $size `>`";
}

def DT_MeshAttr : DT_Attr<"Mesh", "mesh"> {
  let summary = "The devices, as a grid of named axes.";
  let description = [{
    Ranks are numbered row-major: the last axis varies fastest.
    Syntax: `#dt.mesh<"dp" = 2, "tp" = 2>`. C1: names are unique. C2: sizes are positive.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::dt::AxisAttr">:$axes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Size of the axis of that name, or 0 when the mesh has none.
    int64_t getAxisSize(StringRef name) const;
    int64_t getNumRanks() const;
  }];
}

def DT_AxisRefAttr : DT_Attr<"AxisRef", "axis_ref"> {
  let summary = "A whole mesh axis, or a part of one.";
  let description = [{
    An axis of size n = pre * size * post is read as three digits, most significant first; a sub-axis names the middle
    one. A whole axis has pre = 1 and size = 0, which stands for "all of it".
    Printed within a sharding as `"tp"` or `"tp":(pre)size`.
  }];
  let parameters = (ins "StringAttr":$axis, "int64_t":$pre, "int64_t":$size);
  let assemblyFormat = "`<` $axis `,` $pre `,` $size `>`";
  let extraClassDeclaration = [{
    static AxisRefAttr whole(StringAttr axis) { return get(axis.getContext(), axis, 1, 0); }
    bool isWhole() const { return getSize() == 0; }
    /// Number of parts this reference splits something into.
    int64_t getSizeIn(MeshAttr mesh) const;
    /// True when the two name at least one common digit of one axis.
    bool overlaps(AxisRefAttr other, MeshAttr mesh) const;
  }];
}

def DT_ShardingAttr : DT_Attr<"Sharding", "sharding"> {
  let summary = "Which device holds which piece of a value.";
  let description = [{
    For each dimension the axes that split it, major to minor, and the axes over which the value is still partial, each
    with how its pieces combine: the true value is their sum, or their maximum. Where kinds differ, those that stand
    first in the list of kinds combine first: of sums over some axes and maxima over others, the true value is the
    maximum of the sums. A dimension of size n split p ways gives equal local sizes ceil(n / p); trailing padding is
    undefined.
    Syntax: `#dt.sharding<[{"dp"}, {}, {"tp":(1)2} ], partial = sum {"tp":(2)2}>`; of several kinds
    `partial = sum {"tp"}, max {"dp"}`. C1: no two references overlap.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::ArrayAttr">:$dims,
                    ArrayRefParameter<"::mlir::dt::AxisRefAttr">:$partial,
                    ArrayRefParameter<"::mlir::dt::ReductionKind", "of each partial axis">:$reductions);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// Nothing split, nothing partial.
    static ShardingAttr replicated(MLIRContext *context, int64_t rank);
    static ShardingAttr get(MLIRContext *context, ArrayRef<SmallVector<AxisRefAttr>> dims,
                            ArrayRef<AxisRefAttr> partial = {}, ReductionKind reduction = ReductionKind::Sum);
    /// `reductions`: the kind of each of `partial`. The attribute lists them in the order in which they combine.
    static ShardingAttr get(MLIRContext *context, ArrayRef<SmallVector<AxisRefAttr>> dims,
                            ArrayRef<AxisRefAttr> partial, ArrayRef<ReductionKind> reductions);
    int64_t getRank() const { return getDims().size(); }
    SmallVector<AxisRefAttr> getDimAxes(int64_t dim) const;
    /// Number of pieces dimension `dim` is cut into.
    int64_t getNumShards(int64_t dim, MeshAttr mesh) const;
    bool isReplicated() const;
    ShardingAttr withoutPartial() const;
    /// The same without the axes that are partial in this way.
    ShardingAttr withoutPartial(ReductionKind kind) const;
    /// The axes over which the value is partial in this way.
    SmallVector<AxisRefAttr> getPartial(ReductionKind kind) const;
    /// Shape of the piece a rank holds of a value of this global shape: ceil(size / shards) in each dimension.
    SmallVector<int64_t> getLocalShape(ArrayRef<int64_t> globalShape, MeshAttr mesh) const;
    RankedTensorType getLocalType(RankedTensorType global, MeshAttr mesh) const;
    /// C1 against a mesh; emits nothing and returns a reason.
    std::optional<std::string> findProblem(int64_t rank, MeshAttr mesh) const;
  }];
}

def DT_LayerAttr : DT_Attr<"Layer", "layer"> {
  let summary = "A layer of the model: its place in a list of equal ones.";
  let description = [{
    Syntax: `#dt.layer<"model.layers"[3]>` for what the model file calls "model.layers.3". C1: the list has a name, and
    the number is not negative.
  }];
  let parameters = (ins "StringAttr":$list, "int64_t":$number);
  let assemblyFormat = "`<` $list `[` $number `]` `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// As the model calls it: "model.layers.3".
    std::string fullName() const { return getList().str() + "." + std::to_string(getNumber()); }
  }];
}

def DT_RotaryScalingAttr : DT_Attr<"RotaryScaling", "rotary_scaling"> {
  let summary = "How the frequencies of a rotary embedding differ from the paper's.";
  let description = [{
    The fields of `RotaryScaling` in runtime/abi/rotary.h, which has the formula. Syntax:
    `#dt.rotary_scaling<factor = 8.0, per_frequency = 0.0, per_pair = 0.0, constant = 0.0, amplitude = 1.0>`.
    C1: the factor is at least 1, the amplitude positive.
  }];
  let parameters = (ins "FloatAttr":$factor, "FloatAttr":$per_frequency, "FloatAttr":$per_pair, "FloatAttr":$constant,
                    "FloatAttr":$amplitude);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static RotaryScalingAttr get(MLIRContext *context, const ::dtc::abi::RotaryScaling &scaling);
    ::dtc::abi::RotaryScaling value() const;
  }];
}

def DT_Direction : I32EnumAttr<"Direction", "which part of a step an operation belongs to", [
    I32EnumAttrCase<"Forward", 0, "forward">, I32EnumAttrCase<"InputGradient", 1, "input_gradient">,
    I32EnumAttrCase<"WeightGradient", 2, "weight_gradient">, I32EnumAttrCase<"Update", 3, "update">]> {
  let cppNamespace = "::mlir::dt";
  let genSpecializedAttr = 0; // the attribute is the dialect's own, below
}

def DT_DirectionAttr : EnumAttr<DT_Dialect, DT_Direction, "direction"> {
  let summary = "Which part of a training step an operation belongs to.";
  let description = [{
    | direction | what | who waits for it |
    |---|---|---|
    | `forward` | the loss | the next layer |
    | `input_gradient` | the gradient of an activation, and what it is made of | the layer before |
    | `weight_gradient` | the gradient of a parameter, where no activation's needs it | the end of the step |
    | `update` | what is done once a step with all gradients: their reduction, the norm, the optimizer | the next step |

    Syntax: `#dt.direction<input_gradient>`.
  }];
  let assemblyFormat = "`<` $value `>`";
}

def DT_ParamAttr : DT_Attr<"Param", "param"> {
  let summary = "A trainable parameter and its bijection to the tensor in the model file.";
  let description = [{
    logical = permute(reshape(file tensor, factored_shape), permutation): logical dimension i is factored dimension
    permutation[i]. `dim_names` name the logical dimensions ("embed", "heads", ...): strategies refer to them.
    `init` is "zeros", "ones" or "normal" with `stddev`. Outside the layers there is no `layer`. `tied` are other names
    under which a model file may hold the same tensor: `tied = ["lm_head.weight"]`.
  }];
  let parameters = (ins "StringAttr":$name, OptionalParameter<"::mlir::dt::LayerAttr">:$layer, ArrayRefParameter<"int64_t">:$file_shape,
                    ArrayRefParameter<"int64_t">:$factored_shape, ArrayRefParameter<"int64_t">:$permutation,
                    ArrayRefParameter<"StringAttr">:$dim_names, "StringAttr":$init, "FloatAttr":$stddev, "bool":$decays,
                    OptionalArrayRefParameter<"StringAttr">:$tied_names);
  let assemblyFormat = [{ `<` $name `,` (`layer` `=` $layer^ `,`)? `file` `=` `[` $file_shape `]` `,` `factored` `=` `[`
      $factored_shape `]` `,` `permutation` `=` `[` $permutation `]` `,` `dims` `=` `[` $dim_names `]` `,` `init` `=` $init
      `,` `stddev` `=` $stddev `,` `decays` `=` $decays (`,` `tied` `=` `[` $tied_names^ `]`)? `>` }];
  let extraClassDeclaration = [{ SmallVector<int64_t> getLogicalShape() const; }];
}

def DT_SourceKind : I32EnumAttr<"SourceKind", "where the host takes an input from", [
    I32EnumAttrCase<"Tokens", 0, "tokens">, I32EnumAttrCase<"NextTokens", 1, "next_tokens">,
    I32EnumAttrCase<"Key", 2, "key">, I32EnumAttrCase<"LearningRate", 3, "learning_rate">,
    I32EnumAttrCase<"BiasCorrection", 4, "bias_correction">, I32EnumAttrCase<"LossScale", 5, "loss_scale">,
    I32EnumAttrCase<"DocumentStarts", 6, "document_starts">, I32EnumAttrCase<"Positions", 7, "positions">,
    I32EnumAttrCase<"LastPosition", 8, "last_position">]> {
  let cppNamespace = "::mlir::dt";
}

def DT_SourceAttr : DT_Attr<"Source", "source"> {
  let summary = "Where the numbers of an input come from, which the host fills in.";
  let description = [{
    | source | what | shape |
    |---|---|---|
    | `tokens` | the tokens of the micro-batch's samples | [batch, sequence] i32 |
    | `next_tokens` | the tokens to predict there; -100 where the loss ignores the token | [batch, sequence] i32 |
    | `document_starts` | the column of the row at which each token's document begins | [batch, sequence] i32 |
    | `key` | seed, step, index in the global batch of the micro-batch's first row, 0 | [4] i32 |
    | `learning_rate` | the schedule's learning rate | [] f32 |
    | `bias_correction of "beta1"` | 1 - s^t, for t updates with this one and the optimizer's setting s | [] f32 |
    | `loss_scale` | what the gradients of the loss's sum are multiplied by | [] f32 |
    | `positions` | the positions in the sequence of the tokens that are fed | [sequence] i32 |
    | `last_position` | the one of these positions whose next token is asked for | [] i32 |

    A model declares tokens, next tokens, document starts, positions and the key; the optimizer adds the others. C1: a
    bias correction, and only it, names a setting. Syntax: `#dt.source<tokens>`; within a port,
    `#dt.port<input "words" from tokens>`.
  }];
  let parameters = (ins EnumParameter<DT_SourceKind>:$kind, OptionalParameter<"StringAttr">:$setting);
  let assemblyFormat = "`<` $kind (`of` $setting^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Cut from the samples of a micro-batch.
    bool isOfSamples() const {
      return getKind() == SourceKind::Tokens || getKind() == SourceKind::NextTokens ||
             getKind() == SourceKind::DocumentStarts;
    }
  }];
}

def DT_PortKind : I32EnumAttr<"PortKind", "what functions hand to each other", [
    I32EnumAttrCase<"Parameter", 0, "parameter">, I32EnumAttrCase<"Slot", 1, "slot">,
    I32EnumAttrCase<"Gradient", 2, "gradient">, I32EnumAttrCase<"ReducedGradient", 3, "reduced_gradient">,
    I32EnumAttrCase<"Input", 4, "input">, I32EnumAttrCase<"Output", 5, "output">, I32EnumAttrCase<"Share", 6, "share">,
    I32EnumAttrCase<"Copy", 7, "copy">, I32EnumAttrCase<"Cache", 8, "cache">, I32EnumAttrCase<"Kept", 9, "kept">,
    I32EnumAttrCase<"Stash", 10, "stash">, I32EnumAttrCase<"Sent", 11, "sent">,
    I32EnumAttrCase<"Received", 12, "received">, I32EnumAttrCase<"SentGradient", 13, "sent_gradient">,
    I32EnumAttrCase<"ReceivedGradient", 14, "received_gradient">, I32EnumAttrCase<"WeightStash", 15, "weight_stash">,
    I32EnumAttrCase<"GradientStash", 16, "gradient_stash">]> {
  let cppNamespace = "::mlir::dt";
}

def DT_PortAttr : DT_Attr<"Port", "port"> {
  let summary = "What an argument or a result is, and where it is stored.";
  let description = [{
    The same kind, name and slot mean the same tensor in every function of a module; a result that repeats an
    argument's is the argument's new value, and takes its place.

    | kind | what |
    |---|---|
    | `parameter "w"` | a trainable parameter |
    | `slot "exp_avg" of "w"` | what an optimizer keeps for a parameter; the optimizer names its slots |
    | `copy "w"` | a parameter in the type that products compute in; made from it, so never in a checkpoint |
    | `gradient "w"` | the gradient of a parameter, added up over micro-batches |
    | `reduced_gradient "w"` | the gradient of a parameter, complete and placed as its update needs it |
    | `input "words" from tokens` | what the host writes, and where it takes it from (`#dt.source`) |
    | `output "loss_sum"` | what the host reads, the same on every rank |
    | `share "micro_loss_sum"` | a rank's own part of a sum |
    | `cache "h.3.attn.keys"` | what generation keeps of earlier positions; at first any finite numbers |
    | `kept "parameter w"` | state as it was before an update that may have to be undone |
    | `stash "h.3.c_fc"` | what a backward pass reads from its forward pass, for each micro-batch under way |
    | `weight_stash "h.3"` | the same, where the backward pass is split and the pass of the weight gradients reads it |
    | `gradient_stash "h.3.mlp"` | what the pass of the weight gradients reads from that of the input gradients |
    | `sent "h.3"`, `received "h.3"` | what the forward pass of one stage hands to the next stage's |
    | `sent_gradient "h.3"`, `received_gradient "h.3"` | what the backward pass of one stage hands to the previous stage's |

    A port that is `partial` may be handed on as a partial sum, and stays partial where it is found so: gradients that
    add up, shares. A strategy that says where a gradient is added up removes this mark. Once placed, a port says how
    the tensor is computed with in this function (`computed`) and, for state, how it is stored between functions
    (`stored`), which may differ. It also records the type of the `whole` tensor, which the function's own type no
    longer shows once functions are local. Syntax:
    `#dt.port<parameter "w", computed = <[{} ]>, stored = <[{"dp"} ]>, whole = tensor<8xf32>>`,
    `#dt.port<gradient "w", partial>`. Where both placements are one: `placed = <[{} ]>`. If a rank has several stages of
    a pipeline that each add up a part of one gradient, all but the first say so: `gradient "stage_3" of "w"`. C1: a slot
    has a slot's name, and nothing else but such a gradient. C2: only an input has a source. C3: state is not partial.
  }];
  let parameters = (ins "::mlir::dt::PortKind":$kind, "StringAttr":$name, "StringAttr":$slot,
                    "::mlir::dt::SourceAttr":$source, "bool":$may_be_partial,
                    "::mlir::dt::ShardingAttr":$computed, "::mlir::dt::ShardingAttr":$stored,
                    "::mlir::RankedTensorType":$whole);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let builders = [AttrBuilder<(ins "::mlir::dt::PortKind":$kind, "StringRef":$name, CArg<"StringRef", "\"\"">:$slot)>,
                  AttrBuilder<(ins "StringRef":$input, "::mlir::dt::SourceAttr":$source)>];
  let extraClassDeclaration = [{
    PortIdentity identity() const { return {getKind(), getName(), getSlot()}; }
    PortAttr placedAs(ShardingAttr both, RankedTensorType whole) const { return placedAs(both, both, whole); }
    PortAttr placedAs(ShardingAttr computed, ShardingAttr stored, RankedTensorType whole) const;
    /// The same port, but marked as one that may be handed on as a partial sum, or not.
    PortAttr withPartial(bool mayBePartial) const;
    /// The same port of another slot, or of another stage's summand.
    PortAttr withSlot(StringRef slot) const;
    /// A port of another kind for the same parameter, placed alike.
    PortAttr withKind(PortKind kind) const;

    bool isPlaced() const { return static_cast<bool>(getComputed()); }
    bool isFrom(SourceKind kind) const { return getSource() && getSource().getKind() == kind; }
    /// Is kept from step to step: parameters, their copies and slots.
    bool isState() const {
      return getKind() == PortKind::Parameter || getKind() == PortKind::Slot || getKind() == PortKind::Copy;
    }
    /// Belongs to the parameter `name` and has its shape.
    bool isOfParameter() const { return isState() || isGradient(); }
    bool isGradient() const { return getKind() == PortKind::Gradient || getKind() == PortKind::ReducedGradient; }
    /// Belongs to one micro-batch under way.
    bool isOfMicroBatch() const { return getKind() >= PortKind::Stash; }
    bool isSent() const { return getKind() == PortKind::Sent || getKind() == PortKind::SentGradient; }
    bool isReceived() const { return getKind() == PortKind::Received || getKind() == PortKind::ReceivedGradient; }
    /// "slot moment1 of h.0.w", for messages.
    std::string describe() const;
  }];
}

def DT_Task : I32EnumAttr<"Task", "what a function does of a step", [
    I32EnumAttrCase<"Once", 0, "once">, I32EnumAttrCase<"Forward", 1, "forward">,
    I32EnumAttrCase<"Backward", 2, "backward">, I32EnumAttrCase<"Both", 3, "both">,
    I32EnumAttrCase<"Transfer", 4, "transfer">, I32EnumAttrCase<"InputGradients", 5, "input_gradients">,
    I32EnumAttrCase<"WeightGradients", 6, "weight_gradients">,
    I32EnumAttrCase<"Exchange", 7, "exchange">]> {
  let cppNamespace = "::mlir::dt";
}

def DT_MicroBatches : I32BitEnumAttr<"MicroBatches", "which micro-batches of a step", [
    I32BitEnumAttrCaseNone<"None", "none">, I32BitEnumAttrCaseBit<"First", 0, "first">,
    I32BitEnumAttrCaseBit<"Middle", 1, "middle">, I32BitEnumAttrCaseBit<"Last", 2, "last">]> {
  let cppNamespace = "::mlir::dt";
  let separator = "|";
}

def DT_DutyAttr : DT_Attr<"Duty", "duty"> {
  let summary = "What a function does, for which stage of the model, and in which timetable.";
  let description = [{
    | task | what |
    |---|---|
    | `once` | nothing for a micro-batch: the update |
    | `forward`, `backward` | one pass of a micro-batch |
    | `input_gradients`, `weight_gradients` | the backward pass in two: what the previous stage waits for, and the rest |
    | `both` | the forward and the backward pass |
    | `exchange` | what ranks exchange when their passes are done, and what depends on that alone |
    | `transfer` | begins to receive what a pass reads, or waits until what it made has been sent |

    The last of a step's micro-batches reduces what all have added up, and the first begins the sum. Their functions
    differ, so each says which micro-batches it is for. Syntax:
    `#dt.duty<forward, stage = 1, timetable = "step", for = first|middle>`.
  }];
  let parameters = (ins EnumParameter<DT_Task>:$task, "int64_t":$stage, "StringAttr":$timetable,
                    EnumParameter<DT_MicroBatches>:$micro_batches);
  let assemblyFormat = "`<` $task `,` `stage` `=` $stage `,` `timetable` `=` $timetable `,` `for` `=` $micro_batches `>`";
}

def DT_EntryAttr : DT_Attr<"Entry", "entry"> {
  let summary = "Runs a function once, as an entry of a timetable.";
  let description = [{
    For a micro-batch, unless none is given, and in one place of each of the memory's spaces: place 0 of those that are
    not listed. Where steps overlap, `step` says for how many steps later than the running one, and `turns` through how
    many places of each space the entry moves on from step to step: for step s of a run it works in place (place + s) mod
    turns; 0 turns: it stays. Syntax: `#dt.entry<@micro.forward.1, micro_batch = 3, places = [0, 0, 2]>`,
    `#dt.entry<@micro_last.forward.0, micro_batch = 0, step = 3, turns = [0, 0, 4]>`.
  }];
  let parameters = (ins "FlatSymbolRefAttr":$function, DefaultValuedParameter<"int64_t", "-1">:$micro_batch,
                    DefaultValuedParameter<"int64_t", "0">:$step, OptionalArrayRefParameter<"int64_t">:$places,
                    OptionalArrayRefParameter<"int64_t">:$turns);
  let hasCustomAssemblyFormat = 1;
}

def DT_TimetableAttr : DT_Attr<"Timetable", "timetable"> {
  let summary = "What a rank along the pipeline runs in each step, or to evaluate.";
  let description = [{
    A rank runs the functions of all stages that it has. Syntax:
    `#dt.timetable<"step", rank = 1, [<@micro_last.forward.1, micro_batch = 0>, <@update.1>]>`.
  }];
  let parameters = (ins "StringAttr":$name, "int64_t":$rank, OptionalArrayRefParameter<"::mlir::dt::EntryAttr">:$entries);
  let assemblyFormat = "`<` $name `,` `rank` `=` $rank `,` `[` (`]`) : ($entries^ `]`)? `>`";
}

def DT_FutureType : TypeDef<DT_Dialect, "Future"> {
  let mnemonic = "future";
  let summary = "The result of a collective that has been started but not waited for.";
  let parameters = (ins "RankedTensorType":$value);
  let assemblyFormat = "`<` $value `>`";
}

#endif // DT_ATTRIBUTES_TD
