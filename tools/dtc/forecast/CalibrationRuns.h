// The programs by which `dtc calibrate` comes to know a machine: steps of small models, of several sizes and layouts.
// Their kernels are compiled as any program's are, and run where in a step they belong: with data in the caches that is
// there in training, and beside other ranks that want the same memory.
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

/// For a machine where `ranks` ranks run side by side at most, with layouts of so many and of one.
std::vector<CalibrationRun> calibrationRuns(int ranks);

/// For one GPU, of sizes that fill it.
std::vector<CalibrationRun> gpuCalibrationRuns();

/// One that is compiled, and what came of it so far.
struct CalibrationProgram {
  /// Compiles it in `folder` for `target` (empty: this machine's processor), if it is not there yet. Throws Error
  /// (Runtime) with what the compiler ended with.
  CalibrationProgram(CalibrationRun run, const std::string &target, std::string folder);

  /// Runs it, and adds what came of it. Throws likewise.
  void carryOut();

  CalibrationRun run;
  std::string folder;
  std::vector<timing::Observation> kernels = {};
  std::vector<double> steps = {}, hosts = {}; ///< seconds: of each step (of a GPU without a trace), and of its host
  std::vector<timing::TracedRun> traced = {}; ///< of a GPU
};

/// Takes off what kernels of GPUs took longer for the trace; returns what a step takes beside them, seconds.
double takeOffTracing(std::vector<CalibrationProgram> &programs);

/// How fast ranks exchange data, one or several on each of the hosts: compiles a program of so many ranks in `folder`,
/// and starts it by `dtc run` with these options. Throws as these.
std::vector<MeasuredMove> measureLinks(int ranks, const std::vector<std::string> &runOptions,
                                       const std::string &folder);

} // namespace dtc
