// Whether ranks wait less where a step has more micro-batches.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "tools/dtc/forecast/LessWaiting.h"

namespace dtc {

/// The least that makes ranks hardly wait, up to 32 times as many, by planning the program's model with it. Gradients
/// are reduced once a step, so this helps where those are what is waited for. Nothing where ranks hardly wait as it is,
/// where no such number is enough, and where the model that the program was compiled from cannot be had: `path` names
/// the program in messages, `model` is empty where the program carries its model.
std::optional<MoreAccumulation> findMoreAccumulation(const abi::Manifest &program, const std::string &path,
                                                     const std::string &model, const timing::Layout &layout);

} // namespace dtc
