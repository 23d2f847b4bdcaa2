#include "runtime/program/train/resume.h"

#include "runtime/checkpoint/find_checkpoints.h"
#include "runtime/program/data_fingerprint.h"
#include "runtime/support/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace dtc {

std::vector<std::string> compareRuns(const TrainerState &was, const TrainerState &is, bool anyway) {
  static const std::set<std::string> decisive = {"global_batch", "validation_fraction"};
  // They decide when something is reported or written, or are compared elsewhere: no message is needed.
  static const std::set<std::string> harmless = {"eval_every", "eval_batches",    "checkpoint_every",
                                                 "keep",       "sequence_length", "seed"};
  std::vector<std::string> refused, told;
  if (was.data != is.data)
    refused.push_back(fmt::format("the data were {} and are {}", describe(was.data), describe(is.data)));
  if (was.seed != is.seed)
    refused.push_back(fmt::format("seed was {} and is {}", was.seed, is.seed));
  if (was.program != is.program)
    told.push_back(fmt::format("the program was {} and is {}", was.program, is.program));
  for (const auto &[name, value] : is.settings) {
    auto before = was.settings.find(name);
    std::string old = before == was.settings.end() ? "not there" : before->second;
    if (old != value && !harmless.contains(name))
      (decisive.contains(name) ? refused : told).push_back(fmt::format("{} was {} and is {}", name, old, value));
  }
  if (!refused.empty() && !anyway)
    throw Error(ExitCode::BadInput,
                fmt::format("this is not the run that the checkpoint belongs to: {}; give --resume-anyway to go on all "
                            "the same, or start another run from its weights with --weights",
                            fmt::join(refused, "; ")));
  told.insert(told.begin(), refused.begin(), refused.end());
  return told;
}

void goOnWhereStartedAgain(ProgramOptions &options, Communicator &communicator) {
  bool has = options.startedAgain && !options.evalOnly && !listCheckpoints(options.out + "/checkpoints").empty();
  if (communicator.exchange(has).front() == 0)
    return;
  options.resume = options.out;
  options.weights.clear();
}

} // namespace dtc
