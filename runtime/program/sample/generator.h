// Generation of text by one rank: weights in, prompts of token ids in, new tokens out.
//
// A prompt is read in pieces of the program's size: each brings keys and values of its positions into the caches, and
// the last one the logits of the next token. From then on each new token is one run of the timetable "generation".
// Without caches the timetable "prompt" reads the whole row again for each token. Consecutive prompts of the same
// length are continued together, as many as the program has rows.
#pragma once

#include "runtime/checkpoint/state.h"
#include "runtime/executor/executor.h"
#include "runtime/program/list_inputs.h"
#include "runtime/program/sample/generation_request.h"
#include "runtime/program/start/options.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtc {

class Generator {
public:
  /// Reads the request and the weights; all ranks construct it together. `seed`: of the weights if there are none to
  /// read. `program`: identifies the program.
  Generator(Executor &executor, uint64_t seed, const ProgramOptions &options, const std::string &program, int threads);

  /// Rank 0 writes a line of JSON for each new token, at once, and one at the end. Returns the exit code: 0, or 128 + n
  /// when signal n asked to stop.
  int run();

private:
  /// One of several rows that run together.
  struct Row {
    size_t prompt;               ///< its number; of those that only fill up the batch one that is continued beside
    std::vector<int32_t> tokens; ///< the prompt's and the new ones
    bool isShown, isDone;
  };

  void loadWeights(uint64_t seed, const ProgramOptions &options, int threads);
  size_t takeRows(size_t first);
  void continueRows();
  void readPrompt(int64_t length);
  void readNewest(int64_t length);
  /// Runs a timetable on positions [first, first + count) of each row.
  void read(std::string_view timetable, int64_t first, int64_t count);
  void fill(const abi::Tensor &input, int64_t first, int64_t count);
  void chooseTokens();
  void show(const Row &row);
  bool isFirst() const { return executor.rank() == 0; }
  const abi::Generation &sizes() const { return executor.manifest().generation(); }

  Executor &executor;
  RankState state;
  ListInputs inputs;
  bool hasCaches;
  GenerationRequest request;
  std::vector<Row> rows;
  int stop = 0; ///< the signal that asked to stop
  // For the last line:
  int64_t promptTokens = 0, newTokens = 0, newRuns = 0;
  double promptSeconds = 0, newSeconds = 0;
};

} // namespace dtc
