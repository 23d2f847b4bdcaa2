// Distinguishes one run's data from another's without comparing all bytes.
#pragma once

#include "runtime/checkpoint/trainer_state.h"
#include "runtime/data/sources.h"

#include <string>
#include <vector>

namespace dtc {

/// The fingerprint of tokens and loss masks: their bytes, and a hash of what sampleOf() takes from each file; of the
/// whole file with `whole`, as in checkpoints of format 2. For files of up to 64 MiB the two are equal.
DataFingerprint fingerprintOf(const TokenData &data, bool whole = false);

/// The fingerprint of the training data. For one source it is that of its tokens; for a mixture it includes the weights
/// and where sources end.
DataFingerprint fingerprintOf(const std::vector<Source> &sources, bool whole = false);

/// For people.
std::string describe(const DataFingerprint &data);

} // namespace dtc
