// What tells the data of one run from that of another, without a comparison of all bytes.
#pragma once

#include "runtime/checkpoint/trainer_state.h"
#include "runtime/data/sources.h"

#include <string>
#include <vector>

namespace dtc {

/// What tells tokens and loss masks from others: their bytes, and a hash of what sampleOf() takes of each file; of all
/// of it when `whole`, as checkpoints of format 2 have it. For files of up to 64 MiB that is the same.
DataFingerprint fingerprintOf(const TokenData &data, bool whole = false);

/// The same of what is trained on. Of one source it is that of its tokens; of a mixture the weights and where sources
/// end are part of it.
DataFingerprint fingerprintOf(const std::vector<Source> &sources, bool whole = false);

/// For people.
std::string describe(const DataFingerprint &data);

} // namespace dtc
