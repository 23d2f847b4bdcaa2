// The programs with which `dtc calibrate` measures a machine: steps of small models, of several sizes and layouts.
// Their kernels are compiled as those of any program, and run in their place in a step: with the same data in the
// caches as in training, and while other ranks compete for memory.
#pragma once

#include "runtime/comm/link_probe.h"
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

/// For a machine that runs at most `ranks` ranks in parallel, with layouts of that many ranks and of one.
std::vector<CalibrationRun> calibrationRuns(int ranks);

/// For one GPU, with sizes that keep it busy.
std::vector<CalibrationRun> gpuCalibrationRuns();

/// A compiled run, and its measurements up to now.
struct CalibrationProgram {
  /// Compiles it in `folder` for `target` (empty: this machine's processor), unless it is there already. Throws Error
  /// (Runtime) with the compiler's message.
  CalibrationProgram(CalibrationRun run, const std::string &target, std::string folder);

  /// Runs it and adds its measurements. Throws likewise.
  void carryOut();

  CalibrationRun run;
  std::string folder;
  std::vector<timing::Observation> kernels = {};
  std::vector<double> steps = {}, hosts = {}; ///< seconds of each step (for a GPU: without a trace), and of its host
  std::vector<timing::TracedRun> traced = {}; ///< of a GPU
};

/// Subtracts the time that tracing added to GPU kernels; returns what a step takes besides its kernels, in seconds.
double takeOffTracing(std::vector<CalibrationProgram> &programs);

/// How fast ranks exchange data, one or several on each of the hosts: compiles a program of this many ranks in `folder`
/// and starts it by `dtc run` with these options. Throws as above.
std::vector<MeasuredMove> measureLinks(int ranks, const std::vector<std::string> &runOptions,
                                       const std::string &folder);

} // namespace dtc
