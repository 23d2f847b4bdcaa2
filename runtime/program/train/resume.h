// Whether this program, with these settings and data, may resume from a checkpoint.
#pragma once

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/communicator.h"
#include "runtime/program/start/options.h"

#include <string>
#include <vector>

namespace dtc {

/// Compares what a checkpoint was made with to what is about to resume from it.
///
/// Data, batch size, held-out part and seed decide what the run means: a difference throws Error (BadInput) naming
/// each with its old and new value, unless `anyway`. Others are a matter of the user's intent, such as the learning
/// rate. Returns messages about them: "learning_rate was 0.001 and is 0.0005".
std::vector<std::string> compareRuns(const TrainerState &was, const TrainerState &is, bool anyway);

/// A job that its launcher restarts resumes from its latest checkpoint, whatever it started from. Rank 0 decides
/// whether there is one: its host may be the first to see it. Collective.
void goOnWhereStartedAgain(ProgramOptions &options, Communicator &communicator);

} // namespace dtc
