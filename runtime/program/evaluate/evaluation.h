// Computes the loss of a program's weights over token files, for `dtc eval`. It trains nothing and creates no run
// directory.
#pragma once

#include "runtime/checkpoint/state.h"
#include "runtime/data/evaluation_data.h"
#include "runtime/executor/executor.h"
#include "runtime/program/evaluate/evaluator.h"
#include "runtime/program/start/options.h"

#include <chrono>
#include <optional>

namespace dtc {

class Evaluation {
public:
  /// Reads data and weights; all ranks construct it together. `training`: the manifest's with the user's changes.
  /// Throws Error (BadInput) for what cannot be evaluated, with a message on one rank.
  Evaluation(Executor &executor, const abi::Training &training, const ProgramOptions &options);

  /// Rank 0 writes an EvaluationResult to the file of --evaluation. Throws Error (NonFinite) if a loss is not finite.
  void run();

private:
  void openData();
  void loadWeights();
  LossSum evaluate(size_t passage);
  [[noreturn]] void blameWeights(size_t passage, double loss);
  void tellProgress();
  bool isFirst() const { return executor.rank() == 0; }

  Executor &executor;
  const abi::Training &training;
  const ProgramOptions &options;
  RankState state;
  TokenData tokens;
  std::optional<EvaluationData> data;
  EntryInputs inputs;
  Evaluator evaluator;
  EvaluationResult result; ///< so far
  std::chrono::steady_clock::time_point told = std::chrono::steady_clock::now();
};

} // namespace dtc
