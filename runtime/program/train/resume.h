// May this program, with these settings and data, go on from a checkpoint?
#pragma once

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/communicator.h"
#include "runtime/program/start/options.h"

#include <string>
#include <vector>

namespace dtc {

/// Holds what a checkpoint was made with against what is about to go on from it.
///
/// Data, batch size, held-out part and seed decide what the run means: a difference throws Error (BadInput) naming
/// each with its old and new value, unless `anyway`. Others are a matter of the user's intent, such as the learning
/// rate. Returns what is to be told: "learning_rate was 0.001 and is 0.0005".
std::vector<std::string> compareRuns(const TrainerState &was, const TrainerState &is, bool anyway);

/// A job that its launcher starts again goes on from what it has, whatever it began with. Rank 0 says whether there is
/// anything: its host may be the first to see it. Collective.
void goOnWhereStartedAgain(ProgramOptions &options, Communicator &communicator);

} // namespace dtc
