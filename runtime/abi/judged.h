// What the certificate against deadlock covers: the ranks, the groups in which they communicate, what they start and
// wait for, and when. Not what they compute, nor where it is in memory.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>

namespace dtc::abi {

/// A hash of what the certificate covers. It detects a changed program, not a malicious author.
uint64_t hashOfJudged(const Manifest &manifest);

} // namespace dtc::abi
