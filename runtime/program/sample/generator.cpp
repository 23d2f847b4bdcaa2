#include "runtime/program/sample/generator.h"

#include "runtime/abi/outputs.h"
#include "runtime/abi/sources.h"
#include "runtime/abi/symbols.h"
#include "runtime/abi/timetables.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checksums.h"
#include "runtime/comm/run_together.h"
#include "runtime/executor/shard.h"
#include "runtime/program/rank_consistency.h"
#include "runtime/program/start/interrupt.h"
#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"
#include "runtime/support/standard_files.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <fmt/format.h>

namespace dtc {

namespace {
/// Adds its lifetime in seconds to a number.
class Stopwatch {
public:
  explicit Stopwatch(double &seconds) : seconds(seconds) {}
  ~Stopwatch() { seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); }
  Stopwatch(const Stopwatch &) = delete;
  Stopwatch &operator=(const Stopwatch &) = delete;

private:
  double &seconds;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};
} // namespace

Generator::Generator(Executor &executor, uint64_t seed, const ProgramOptions &options, const std::string &program,
                     int threads)
    : executor(executor), state(executor.manifest(), executor.rank(), executor.device(), executor.memory()),
      inputs(inputsOfLists(executor.manifest(), executor.role())),
      hasCaches(!abi::timetableOf(executor.role(), abi::generationTimetable).period().empty()) {
  std::string text;
  runTogether(executor.communicator(), [&] {
    text = MappedFile(options.sample).text();
    request = readRequest(options.sample, executor.manifest());
  });
  requireSameConfiguration(executor.communicator(),
                           {{"the program", program},
                            {"the request of --sample", fmt::format("{:016x}", checksum(text))},
                            {"--weights", options.weights.empty() ? "not given" : "given"}});
  loadWeights(seed, options, threads);
}

void Generator::loadWeights(uint64_t seed, const ProgramOptions &options, int threads) {
  std::string source = options.weights.empty() ? executor.manifest().model_directory() : options.weights;
  if (!source.empty())
    return dtc::loadWeights(state, executor.communicator(), source, options.verifyCheckpoint);
  runTogether(executor.communicator(), [&] { state.initialize(seed, threads); });
}

/// Lines are printed immediately; a reader that goes away is not a failure.
static void requireRead() {
  std::fflush(stdout);
  if (interruptRequested() != SIGPIPE)
    requirePrinted();
}

int Generator::run() {
  for (size_t next = 0; next < request.prompts.size() && !stop; next += takeRows(next), continueRows())
    ;
  auto perSecond = [](int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; };
  if (isFirst()) {
    fmt::print("{{\"prompts\": {}, \"prompt_tokens\": {}, \"tokens\": {}, \"prompt_seconds\": {:.6f}, "
               "\"seconds\": {:.6f}, \"prompt_tokens_per_second\": {:.2f}, \"tokens_per_second\": {:.2f}}}\n",
               request.prompts.size(), promptTokens, newTokens, promptSeconds, newSeconds,
               perSecond(promptTokens, promptSeconds), perSecond(newRuns, newSeconds));
    requireRead();
  }
  return stop ? 128 + stop : 0;
}

/// Prompts of one length from `first` on. Where there are fewer than rows, the last one is repeated. Returns how many.
size_t Generator::takeRows(size_t first) {
  auto most = static_cast<size_t>(sizes().rows());
  size_t length = request.prompts[first].size(), end = first;
  while (end < request.prompts.size() && end - first < most && request.prompts[end].size() == length)
    ++end;
  rows.clear();
  for (size_t row = 0; row < most; ++row) {
    size_t prompt = std::min(first + row, end - 1);
    bool isShown = first + row < end;
    rows.push_back({prompt, request.prompts[prompt], isShown, !isShown});
  }
  return end - first;
}

void Generator::continueRows() {
  auto length = static_cast<int64_t>(rows.front().tokens.size());
  promptTokens += length * std::ranges::count(rows, true, &Row::isShown);
  {
    Stopwatch watch(promptSeconds);
    readPrompt(length);
    chooseTokens();
  }
  Stopwatch watch(newSeconds);
  for (int64_t made = 1; made < request.maxTokens && !stop && !std::ranges::all_of(rows, &Row::isDone); ++made) {
    newRuns += std::ranges::count(rows, false, &Row::isDone);
    readNewest(length + made);
    chooseTokens();
  }
}

/// In pieces as equal as possible: padding is wasted work.
void Generator::readPrompt(int64_t length) {
  int64_t most = hasCaches ? sizes().prompt() : length;
  for (int64_t first = 0; first < length; first += most)
    read(abi::promptTimetable, first, std::min(most, length - first));
}

void Generator::readNewest(int64_t length) {
  if (hasCaches)
    read(abi::generationTimetable, length - 1, 1);
  else
    read(abi::promptTimetable, 0, length);
}

void Generator::read(std::string_view timetable, int64_t first, int64_t count) {
  executor.beginStep(first + count);
  abi::forEachEntry(abi::timetableOf(executor.role(), timetable), [&](const abi::TimetableEntry &entry) {
    for (const abi::Tensor *input : inputs[entry.list()])
      fill(*input, first, count);
    executor.run(entry);
  });
}

/// Behind the positions that are read there may be more to fill: caches skip those of no place, and nobody sees them.
void Generator::fill(const abi::Tensor &input, int64_t first, int64_t count) {
  std::vector<int32_t> values(static_cast<size_t>(abi::elementsOf(input)));
  switch (input.source().kind()) {
  case abi::Source::POSITIONS:
    for (size_t i = 0; i < values.size(); ++i)
      values[i] =
          static_cast<int32_t>(static_cast<int64_t>(i) < count ? first + static_cast<int64_t>(i) : sizes().capacity());
    break;
  case abi::Source::LAST_POSITION:
    values[0] = static_cast<int32_t>(first + count - 1);
    break;
  case abi::Source::TOKENS: {
    Shard shard = shardOf(input, Mesh(executor.manifest().mesh()), executor.rank());
    int64_t width = input.local_shape(1);
    for (int64_t row = 0; row < shard.size[0]; ++row)
      std::copy_n(rows[static_cast<size_t>(shard.begin[0] + row)].tokens.begin() + first, count,
                  values.begin() + row * width);
    break;
  }
  default:
    break; // the key of a model that draws nothing
  }
  executor.write(input, values);
}

/// Every rank has all logits; all ranks continue with rank 0's choice.
void Generator::chooseTokens() {
  std::vector<float> logits = executor.floats(abi::output::logits.name);
  size_t vocabulary = logits.size() / rows.size();
  for (size_t number = 0; number < rows.size(); ++number) {
    Row &row = rows[number];
    auto own = std::span(logits).subspan(number * vocabulary, vocabulary);
    int64_t chosen = row.isDone
                         ? row.tokens.back()
                         : chooseToken(own, request.choice, {static_cast<uint32_t>(row.prompt), row.tokens.size()});
    row.tokens.push_back(static_cast<int32_t>(executor.communicator().exchange(chosen).front()));
    if (row.isDone)
      continue;
    ++newTokens;
    show(row);
    row.isDone = std::ranges::find(request.stops, row.tokens.back()) != request.stops.end();
  }
  stop = static_cast<int>(executor.communicator().exchange(interruptRequested()).front());
}

void Generator::show(const Row &row) {
  if (!isFirst())
    return;
  fmt::print("{{\"row\": {}, \"index\": {}, \"token\": {}}}\n", row.prompt,
             row.tokens.size() - 1 - request.prompts[row.prompt].size(), row.tokens.back());
  requireRead();
}

} // namespace dtc
