// The programs by which `dtc calibrate` comes to know a machine: steps of small models, of several sizes and layouts.
// Their kernels are compiled as any program's are, and run where in a step they belong: with data in the caches that is
// there in training, and beside other ranks that want the same memory.
#pragma once

#include "tools/dtc/forecast/MeasuredTrace.h"

#include <string>
#include <vector>

namespace dtc {

struct CalibrationRun {
  std::string family; ///< "gpt2" or "llama"
  int64_t width, layers, vocabulary, sequence, batch;
  int ranks = 1;
  std::string mesh, strategy, compute; ///< as 'dtc compile' takes them

  std::string name() const; ///< "gpt2 of width 320, tp=2, bf16", for messages
};

/// For a machine where `ranks` ranks run side by side at most, with layouts of so many and of one.
std::vector<CalibrationRun> calibrationRuns(int ranks);

/// What came of one.
struct CalibrationResult {
  CalibrationRun run;
  std::vector<timing::Observation> kernels;
  std::vector<double> steps, hosts;
};

/// Compiles and runs it in `folder`, for `target` (empty: this machine's processor). Throws Error (Runtime) with what
/// the compiler or the program ended with.
CalibrationResult carryOut(const CalibrationRun &run, const std::string &target, const std::string &folder);

} // namespace dtc
