#include "runtime/program/evaluate/evaluation.h"

#include "runtime/abi/symbols.h"
#include "runtime/abi/timetables.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/run_together.h"
#include "runtime/program/data_fingerprint.h"
#include "runtime/program/rank_consistency.h"
#include "runtime/support/error.h"
#include "runtime/support/log_line.h"
#include "runtime/support/output_file.h"

#include <cmath>
#include <fmt/format.h>

namespace dtc {

Evaluation::Evaluation(Executor &executor, const abi::Training &training, const ProgramOptions &options)
    : executor(executor), training(training), options(options),
      state(executor.manifest(), executor.rank(), executor.device(), executor.memory()), inputs(executor),
      evaluator(executor, inputs) {
  runTogether(executor.communicator(), [&] { openData(); });
  requireSameData(executor.communicator(), "--data", fingerprintOf(tokens));
  loadWeights();
}

void Evaluation::openData() {
  if (options.data.size() != 1)
    throw Error(ExitCode::Usage,
                "--data: the loss of a mixture is not that of any of its parts; give files without weights");
  tokens = TokenData(options.data.front().files, parseTokenFormat(options.dataFormat));
  data.emplace(tokens, EvaluationOptions{training.sequence_length(),
                                         {abi::sizeOf(executor.manifest(), "vocab"), training.separate_documents()},
                                         options.byDocument});
}

void Evaluation::loadWeights() {
  std::string source = options.weights.empty() ? executor.manifest().model_directory() : options.weights;
  if (source.empty())
    refuseTogether(executor.communicator(), "the program has no weights; say which to evaluate: --weights DIRECTORY");
  dtc::loadWeights(state, executor.communicator(), source, options.verifyCheckpoint);
  abi::forEachEntry(abi::timetableOf(executor.role(), abi::refreshTimetable),
                    [&](const abi::TimetableEntry &entry) { executor.run(entry); });
}

/// A passage with more windows than a batch has rows takes several batches; a shorter one leaves rows empty.
LossSum Evaluation::evaluate(size_t passage) {
  LossSum ofPassage;
  for (int64_t window = 0; window < data->windowsOf(passage); window += evaluator.rows()) {
    LossSum batch =
        evaluator.run([&](SamplePart part, int64_t firstRow, const BatchSlice &slice, std::span<int32_t> values) {
          data->fill(part, passage, window + firstRow, slice, values);
        });
    ofPassage += batch;
    result.all += batch;
    tellProgress();
  }
  result.windows += data->windowsOf(passage);
  if (!std::isfinite(ofPassage.loss))
    blameWeights(passage, ofPassage.loss);
  return ofPassage;
}

/// The loss is the same on all ranks. A rank with a bad weight names it.
void Evaluation::blameWeights(size_t passage, double loss) {
  std::string what = fmt::format("the loss of {} is {}",
                                 options.byDocument ? fmt::format("document {}", passage) : tokens.describe(), loss);
  runTogether(executor.communicator(), [&] {
    try {
      state.requireFinite();
    } catch (const Error &error) {
      throw Error(ExitCode::NonFinite, fmt::format("{}: {}", what, error.what()));
    }
  });
  throw Error(ExitCode::NonFinite, isFirst() ? what + " though all weights are finite" : "");
}

/// In a long evaluation, prints the progress every 10 s.
void Evaluation::tellProgress() {
  auto now = std::chrono::steady_clock::now();
  if (!isFirst() || now - told < std::chrono::seconds(10))
    return;
  told = now;
  logNews(fmt::format("{:.0f} of {} tokens, loss {:.4f} so far", result.all.tokens, tokens.size(),
                      result.all.mean().value_or(0)));
}

void Evaluation::run() {
  auto begin = std::chrono::steady_clock::now();
  for (size_t passage = 0; passage < data->passages(); ++passage) {
    LossSum ofPassage = evaluate(passage);
    if (options.byDocument)
      result.documents.push_back(ofPassage);
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  runTogether(executor.communicator(), [&] {
    if (!isFirst())
      return;
    AtomicFile file(options.evaluation);
    file.append(result.write());
    file.publish(0600);
  });
}

} // namespace dtc
