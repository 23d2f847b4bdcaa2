// Traces the steps that --trace names.
#pragma once

#include "runtime/executor/executor.h"
#include "runtime/observe/trace.h"
#include "runtime/program/train/training_observer.h"
#include "runtime/program/train/training_report.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dtc {

class StepTrace final : public TrainingObserver {
public:
  /// Traces steps `first` to `last`, counted from 1, into the file `path`; 0: none. Both objects outlive it.
  StepTrace(Executor &executor, TrainingReport &report, int64_t first, int64_t last, std::string path);

  void beginStep(int64_t step) override;
  void stepComputed(const ComputedStep &step) override;
  /// Writes the trace where training ended before the last of these steps.
  void endRun() override { finish(); }

private:
  void finish();

  Executor &executor;
  TrainingReport &report;
  int64_t first, last, done = 0; // done: the step that was traced last
  std::string path;
  std::unique_ptr<Trace> trace; // while steps are traced
};

} // namespace dtc
