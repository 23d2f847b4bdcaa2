// The functions of a training step, by their names: what each does, when, and which others it is made of. The passes
// that make these functions find them by name; once *keep* has written duties (#dt.duty), everybody asks those.
#pragma once

#include "dialect/IR/Names.h"
#include "runtime/abi/timetables.h"

namespace mlir::dt {

/// A function as *keep* leaves it: a list of the program, or, where there are stages, what is cut into such lists.
struct StepFunction {
  llvm::StringLiteral name;
  Task task;
  std::string_view timetable;
  MicroBatches microBatches;
};

inline constexpr StepFunction stepFunctions[] = {
    {function::micro, Task::Both, dtc::abi::stepTimetable, MicroBatches::First},
    {function::microNext, Task::Both, dtc::abi::stepTimetable, MicroBatches::Middle},
    {function::microLast, Task::Both, dtc::abi::stepTimetable, MicroBatches::Last},
    {function::eval, Task::Forward, dtc::abi::evaluationTimetable, MicroBatches::None},
    {function::refresh, Task::Once, dtc::abi::refreshTimetable, MicroBatches::None},
    {function::assume, Task::Once, dtc::abi::stepTimetable, MicroBatches::None},
    {function::update, Task::Once, dtc::abi::stepTimetable, MicroBatches::None},
    {function::prompt, Task::Once, dtc::abi::promptTimetable, MicroBatches::None},
    {function::generate, Task::Once, dtc::abi::generationTimetable, MicroBatches::None},
};

/// The function that carries out micro-batch `index` of `accumulation`.
inline const StepFunction &functionOfMicroBatch(int64_t index, int64_t accumulation) {
  MicroBatches wanted = index + 1 == accumulation ? MicroBatches::Last
                        : index == 0              ? MicroBatches::First
                                                  : MicroBatches::Middle;
  return *llvm::find_if(stepFunctions, [&](const StepFunction &each) { return each.microBatches == wanted; });
}

/// Before *keep*: the function of a step's last micro-batch, which adds to what came before where others did.
inline llvm::StringRef lastMicroBatch(bool accumulates) { return accumulates ? function::microNext : function::micro; }

/// The functions before *keep* that a function after it carries out, in their order: itself, except that the last
/// micro-batch is followed by the step's reductions. `has` says which functions there were.
inline llvm::SmallVector<llvm::StringRef, 2> partsOf(llvm::StringRef name,
                                                     llvm::function_ref<bool(llvm::StringRef)> has) {
  if (name != function::microLast)
    return {name};
  return {lastMicroBatch(has(function::microNext)), function::reduce};
}

} // namespace mlir::dt
