// Names of the attributes of modules, functions and operations, and of the functions; see Dialect.td's forms.
#pragma once

#include "dialect/IR/Attributes.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::dt {

/// Attributes of a module.
namespace module_attr {
inline constexpr llvm::StringLiteral mesh = "dt.mesh", model = "dt.model", parameters = "dt.parameters",
                                     symbols = "dt.symbols", target = "dt.target";
/// How many layers each stage of a pipeline is to have, where a strategy says so; and, once the module has been cut, an
/// array with each stage's layers.
inline constexpr llvm::StringLiteral stageLayers = "dt.stage_layers", stages = "dt.stages";
/// The rank along the pipeline of each stage, where ranks have several; and, if present, that backward passes are split
/// into gradients of inputs and of weights. The timetable decides both.
inline constexpr llvm::StringLiteral stageRanks = "dt.stage_ranks", splitsBackward = "dt.splits_backward";
/// How what crosses each cut of a pipeline travels, "whole" or "sliced" (passes/keep/cut/Crossings.h): where a choice
/// says so, and once the module has been cut, where anything could be sliced.
inline constexpr llvm::StringLiteral crossing = "dt.crossing";
/// Of a module with timetables, if present: a stage adds its micro-batches up in the order in which the step's timetable
/// has them, which is not ascending.
inline constexpr llvm::StringLiteral sumsByTimetable = "dt.sums_by_timetable";
/// If present, each stage updates its parameters by itself after each backward pass, while later steps are under way; a
/// backward pass reads the parameters that its forward pass has read (docs/pipelines.md, PipeDream).
inline constexpr llvm::StringLiteral asynchronous = "dt.asynchronous";
/// If present, the ranks of a pipeline update their parameters before they know the norm of all gradients, begin the
/// next step, and update again where they were wrong (docs/pipelines.md, steps that overlap).
inline constexpr llvm::StringLiteral earlyUpdate = "dt.early_update";
/// The gradients whose late rows are gathered, where nobody chose: strings in the form that dt-gather-rows takes.
inline constexpr llvm::StringLiteral rows = "dt.rows";
/// Of a module whose functions are in order: an array of #dt.timetable.
inline constexpr llvm::StringLiteral timetables = "dt.timetables";
/// On a module that no phase may accept: a check of what the compiler itself ensures has failed, which no input can
/// cause.
inline constexpr llvm::StringLiteral broken = "dt.broken";
} // namespace module_attr

/// Attributes of arguments and results (dt.port, dt.dims). For those of operations see Marks.h.
inline constexpr llvm::StringLiteral portAttr = "dt.port", dimsAttr = "dt.dims";

/// The attributes {dt.port} of an argument or a result.
inline DictionaryAttr portAttributes(PortAttr port) {
  Builder builder(port.getContext());
  return builder.getDictionaryAttr(builder.getNamedAttr(portAttr, port));
}

/// The functions of a module.
namespace function {
inline constexpr llvm::StringLiteral loss = "loss", micro = "micro", microNext = "micro_next", microLast = "micro_last",
                                     reduce = "reduce", assume = "assume", update = "update", eval = "eval",
                                     refresh = "refresh", prompt = "prompt", generate = "generate";
} // namespace function

/// The shares with which ranks update before they exchange anything: the step's loss and tokens.
inline constexpr llvm::StringLiteral stepLossSum = "step_loss_sum", stepTokenCount = "step_token_count";

/// The mesh axis along which the stages are placed.
inline constexpr llvm::StringLiteral pipelineAxis = "pp";

/// Of a function: its #dt.duty.
inline constexpr llvm::StringLiteral dutyAttr = "dt.duty";

/// What a function does; null before *keep* has set it.
inline DutyAttr dutyOf(FunctionOpInterface function) { return function->getAttrOfType<DutyAttr>(dutyAttr); }

/// What an argument or a result is; null where it has no port.
inline PortAttr argumentPort(FunctionOpInterface function, unsigned index) {
  return function.getArgAttrOfType<PortAttr>(index, portAttr);
}
inline PortAttr portOf(BlockArgument argument) {
  return argumentPort(cast<FunctionOpInterface>(argument.getOwner()->getParentOp()), argument.getArgNumber());
}
inline PortAttr resultPort(FunctionOpInterface function, unsigned index) {
  return function.getResultAttrOfType<PortAttr>(index, portAttr);
}

} // namespace mlir::dt
