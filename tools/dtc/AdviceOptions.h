// Options about advice, which the verbs that compile for a cluster share.
#pragma once

#include "tools/dtc/advice/Advice.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace dtc {

struct AdviceOptions {
  std::vector<std::string> silenced;
  std::string shown = "few";                    ///< "few", "all" or "none"
  double referenceBatch = 0, referenceRate = 0; ///< see AdviceFacts; 0: not said

  bool isShown() const { return shown != "none"; }
};

/// --silence, --advice, --reference-batch and --reference-rate.
void addAdviceOptions(CLI::App &verb, AdviceOptions &options);

/// What there is to say of these facts, to which the options add their own.
std::vector<Finding> adviceOn(const AdviceOptions &options, AdviceFacts facts);

/// What there is to say about a program that needs more memory than there is; empty if it has enough. Such a program
/// has no step, and nothing else is said about it.
std::vector<Finding> adviceOnRoom(const AdviceOptions &options, const abi::Manifest &program,
                                  const timing::Layout &layout);

/// The lengths of a token file's documents, of a large one the first; empty where its format does not say where
/// documents begin. Throws Error (BadInput) where there is no such file.
std::vector<double> documentLengths(const std::string &path);

} // namespace dtc
