// What all ranks must have in common before the first step: how they were started and what they train on. Each host has
// files and a command line of its own, and training on two data sets at once looks like training.
#pragma once

#include "runtime/checkpoint/trainer_state.h"
#include "runtime/comm/communicator.h"

#include <map>
#include <string>

namespace dtc {

/// Throws Error (BadInput) where a rank's value of any name differs from rank 0's: on rank 0 naming the lowest such
/// rank, the name and both values, without words on the others. All ranks have the same names. Collective.
void requireSameConfiguration(Communicator &communicator, const std::map<std::string, std::string> &values);

/// Throws Error (BadInput) where a rank's data are others than rank 0's: on rank 0 naming the lowest such rank and both
/// fingerprints, without words on the others. `option` names them. Collective.
void requireSameData(Communicator &communicator, const std::string &option, const DataFingerprint &mine);

} // namespace dtc
