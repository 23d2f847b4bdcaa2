// What `dtc verify` prints before and while it interprets a step: how long it takes, how much memory, and its progress.
#pragma once

#include "tools/verify/Verify.h"

#include <string>

namespace dtc {

/// The cost of interpreting on an idle core: measured on llama models of 2 and 4 layers on 32 ranks, and right within a
/// factor of about two.
struct VerifyEffort {
  double seconds, bytes;

  /// For a step of a program.
  static VerifyEffort of(const abi::Manifest &program);
};

/// Refuses what takes more than ten minutes or 16 GB, unless `noLimit` is set: throws Error (BadInput) whose text ends
/// in `advice`. Announces what takes more than some seconds on the standard error.
void requireEffort(const VerifyEffort &effort, const std::string &model, const std::string &advice, bool noLimit);

/// Prints the progress every ten seconds, on the standard error.
verify::Progress tellProgress();

} // namespace dtc
