// The command line of a compiled program.
#pragma once

#include "runtime/data/sources.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

struct ProgramOptions {
  std::vector<SourceFiles> data;           ///< token files, read as one; or several such sources with weights
  std::vector<std::string> validationData; ///< token files to evaluate on; empty: the end of `data`
  std::string dataFormat = "auto";         ///< or one of tokenFormats()
  std::string out = "dtc-out";             ///< folder for checkpoints, metrics and trace
  std::string resume;                      ///< checkpoint, or a folder with checkpoints
  std::string weights;                     ///< model directory to start from instead of the program's own
  std::string sample;                      ///< of a program that generates: the request (generation_request.h)
  std::string lossFile;                    ///< one line per step, losses to the last bit
  std::vector<std::string> settings;       ///< "key=value" or "section.key=value"
  std::optional<int64_t> steps;
  int threads = 0;                       ///< per rank; 0: the machine's cores divided by the ranks
  int64_t traceFirst = 0, traceLast = 0; ///< steps to trace, counted from 1; 0: none
  int64_t replayCheck = 0;               ///< every so many steps one is computed twice; 0: none
  bool evalOnly = false;
  bool tensorboard = false;     ///< write the metrics as an event file too
  bool graphs = true;           ///< on GPUs: run repeated work as CUDA graphs
  std::string tuned;            ///< on GPUs: the file of algorithms chosen by time; empty: by heuristic
  bool tf32 = false;            ///< on GPUs: products of f32 by TF32
  bool shareGpu = false;        ///< more ranks than GPUs
  double watchdog = 45;         ///< seconds
  double startTimeout = 60;     ///< seconds
  bool verifyTransfers = false; ///< also hash data between hosts over fast links
  bool withoutCertificate = false; ///< run programs that were not proven free of deadlocks
  bool verifyCheckpoint = true; ///< verify a checkpoint's checksums before loading it
  bool startedAgain = false;    ///< by the launcher, after a rank was lost
  bool resumeAnyway = false;    ///< resume although data or settings that define the run differ
  std::string evaluation;       ///< of `dtc eval`: evaluate `data` and write the result to this file; empty: train
  bool byDocument = false;      ///< of `dtc eval`: each document separately
  std::string probeLinks;       ///< of `dtc calibrate`: measure how fast ranks exchange data, into this file
};

/// Throws Error (Usage) with a text for the user; prints help or `version` and exits when asked for it.
ProgramOptions parseOptions(int argc, char **argv, const std::function<std::string()> &version);

} // namespace dtc
