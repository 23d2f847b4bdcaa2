#include "runtime/program/evaluate/evaluator.h"

#include "runtime/abi/outputs.h"
#include "runtime/abi/timetables.h"

#include <algorithm>

namespace dtc {

static const abi::Timetable &evaluationOf(const Executor &executor) {
  return abi::timetableOf(executor.role(), abi::evaluationTimetable);
}

Evaluator::Evaluator(Executor &executor, EntryInputs &inputs)
    : executor(executor), inputs(inputs),
      microRows(executor.manifest().training().global_batch() / executor.manifest().training().accumulation()) {
  int64_t microBatches = 0;
  abi::forEachEntry(evaluationOf(executor), [&](const abi::TimetableEntry &entry) {
    microBatches = std::max(microBatches, entry.has_micro_batch() ? entry.micro_batch() + 1 : 0);
  });
  batchRows = microRows * microBatches;
}

LossSum Evaluator::run(const FillRows &fill) {
  inputs.forget();
  abi::forEachEntry(evaluationOf(executor), [&](const abi::TimetableEntry &entry) {
    inputs.fillMissing(entry, 0, [&](const abi::Tensor &tensor, uint32_t place) {
      if (const BatchInput *input = inputs.samplesOf(tensor))
        inputs.write(*input, place, [&](std::span<int32_t> values) {
          fill(input->part, entry.micro_batch() * microRows, input->slice, values);
        });
    });
    executor.run(entry);
  });
  return {executor.scalar(abi::output::evaluationLossSum.name),
          executor.scalar(abi::output::evaluationTokenCount.name)};
}

} // namespace dtc
