// Runs mutants of a format against the code that reads it, and counts the results.
//
// Mutants run in child processes, many in each: a crash, a hang or a mutant that takes too much memory ends one child,
// and the mutant's number is known; the next child continues after it. The same seed and number give the same mutant.
#pragma once

#include "test/fuzz/random.h"

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace dtc::fuzz {

/// A property that a mutant broke without a crash: a flip that nobody noticed, settings that do not read back.
struct Finding : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Target {
  std::string name;
  /// Makes a mutant.
  std::function<std::string(Random &)> mutate;
  /// Reads it as dtc or a program would: returns when it was accepted, throws dtc::Error when refused, Finding when
  /// something is wrong. Any other exception counts as a crash.
  std::function<void(const std::string &mutant)> run;
  /// What must happen to every mutant: damage that has to be noticed.
  bool mustRefuse = false;
};

struct HarnessOptions {
  uint64_t seed = 1, first = 0, count = 1000;
  std::string artifacts; ///< directory for mutants that are findings; empty: not kept
  bool verbose = false;  ///< print each mutant's fate
};

/// True when there was no finding. Prints one line of figures, and one for each finding.
bool runMutants(const Target &target, const HarnessOptions &options);

/// The command line of a fuzz executable: `TARGET... [--count N] [--seed S] [--first I] [--artifacts DIR] [--verbose]`;
/// no target: all. Returns the exit code.
int runTargets(const std::vector<Target> &targets, int argc, char **argv);

} // namespace dtc::fuzz
