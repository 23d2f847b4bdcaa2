// What `dtc verify` says before and while it interprets a step: how long it takes, how much memory, how far it is.
#pragma once

#include "tools/verify/Verify.h"

#include <string>

namespace dtc {

/// What interpreting takes, of an idle core: measured on llama models of 2 and 4 layers on 32 ranks, and right within a
/// factor of about two.
struct VerifyEffort {
  double seconds, bytes;

  /// Of a step of a program.
  static VerifyEffort of(const abi::Manifest &program);
};

/// Refuses what takes more than ten minutes or 16 GB, unless `noLimit` insists: throws Error (BadInput) that ends in
/// `advice`. What takes more than some seconds is announced on the standard error.
void requireEffort(const VerifyEffort &effort, const std::string &model, const std::string &advice, bool noLimit);

/// Says every ten seconds, on the standard error, how much has been done.
verify::Progress tellProgress();

} // namespace dtc
