// Checks what all ranks must have in common before the first step: how they were started and the training data. Each
// host has its own files and command line, and training on two data sets at once would look normal.
#pragma once

#include "runtime/checkpoint/trainer_state.h"
#include "runtime/comm/communicator.h"

#include <map>
#include <string>

namespace dtc {

/// Throws Error (BadInput) if a rank's value of any name differs from rank 0's: on rank 0 naming the lowest such rank,
/// the name and both values, without a message on the others. All ranks have the same names. Collective.
void requireSameConfiguration(Communicator &communicator, const std::map<std::string, std::string> &values);

/// Throws Error (BadInput) if a rank's data differs from rank 0's: on rank 0 naming the lowest such rank and both
/// fingerprints, without a message on the others. `option` names the data. Collective.
void requireSameData(Communicator &communicator, const std::string &option, const DataFingerprint &mine);

} // namespace dtc
