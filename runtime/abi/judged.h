// What the certificate against deadlock is about: which ranks there are, in which groups they meet, what they start and
// wait for, and when. Not what they compute, and not where in memory it lies.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>

namespace dtc::abi {

/// A hash of it. It tells a changed program from the one that was judged, not an attacker from its author.
uint64_t hashOfJudged(const Manifest &manifest);

} // namespace dtc::abi
