// The two commands that compile and run a plan.
#pragma once

#include "timing/plans/candidate.h"
#include "timing/plans/problem.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtc {

/// What of `dtc plan`'s own command line its commands repeat.
struct CommandWords {
  std::string model, cluster, configFile, target;
  std::vector<std::string> assignments; ///< --set KEY=VALUE, without those that a plan decides
  uint64_t memoryLimit = 0;             ///< 0: not given
  std::string choicesFile;              ///< where the choices of the plan are; empty: the compiler makes its own
  std::string data;                     ///< empty: FILE
};

/// The --target of programs for the cluster's devices: "cpu:native"; for GPUs by their name (A100, H100, H200, B200),
/// otherwise the oldest one.
std::string targetFor(const timing::Cluster &cluster);

/// The program is called as programNameFor says (OtherVerbs.h). With a file of choices that has an order, the compiler
/// takes that order and looks for no other.
std::string compileCommand(const CommandWords &words, const plans::Candidate &plan);

/// On one host `dtc run`; on up to four, or where they have unequal numbers of ranks, `dtc run --hosts`, with names to
/// replace; otherwise `srun`, with a token by which the hosts know each other (docs/hosts.md).
std::string runCommand(const CommandWords &words, const plans::Problem &problem);

/// What to know before copying the commands: what to replace in them, and what the first one leaves open.
std::vector<std::string> commandNotes(const CommandWords &words, const plans::Problem &problem);

} // namespace dtc
