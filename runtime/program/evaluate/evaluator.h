// Runs a role's evaluation timetable: the loss of one batch, without changing the state.
#pragma once

#include "runtime/data/evaluation_result.h"
#include "runtime/program/entry_inputs.h"

#include <cstdint>
#include <functional>
#include <span>

namespace dtc {

class Evaluator {
public:
  /// Both outlive the evaluator.
  Evaluator(Executor &executor, EntryInputs &inputs);

  /// The rows of a batch, over all ranks.
  int64_t rows() const { return batchRows; }

  /// Writes a part of the slice's rows and columns into `values`; the slice's micro-batch begins at row `firstRow` of
  /// the batch. Rows that do not exist have targets that do not count.
  using FillRows =
      std::function<void(SamplePart part, int64_t firstRow, const BatchSlice &slice, std::span<int32_t> values)>;
  LossSum run(const FillRows &fill);

private:
  Executor &executor;
  EntryInputs &inputs;
  int64_t microRows; ///< of one micro-batch, over all ranks
  int64_t batchRows;
};

} // namespace dtc
