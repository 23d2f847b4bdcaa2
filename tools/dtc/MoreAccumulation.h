// Whether ranks wait less where a step has more micro-batches.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "tools/dtc/forecast/LessWaiting.h"

namespace dtc {

/// The smallest factor, up to 32, by which more micro-batches make ranks hardly wait, found by planning the program's
/// model with them. Gradients are reduced once a step, so this helps where ranks wait for those. Nothing where ranks
/// hardly wait already, where no such factor is enough, and where the model that the program was compiled from is not
/// available: `path` names the program in messages, `model` is empty where the program carries its model.
std::optional<MoreAccumulation> findMoreAccumulation(const abi::Manifest &program, const std::string &path,
                                                     const std::string &model, const timing::Layout &layout);

} // namespace dtc
