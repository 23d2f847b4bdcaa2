// dtc explain --order: of everything that a step moves how much is hidden, behind what, and what holds it.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/cluster/cluster.h"
#include "tools/dtc/forecast/LessWaiting.h"

#include <functional>

namespace dtc {

/// What the first rank of each role moves in a simulated step, in the order in which its lists start it; equal layers
/// once; and what would make ranks wait less, of which only the compiler can say whether more micro-batches would. Says
/// nothing of a program that generates, as that has no step.
void explainOrder(const abi::Manifest &manifest, const timing::Layout &layout, bool asJson,
                  const std::function<std::optional<MoreAccumulation>()> &askForAccumulation);

} // namespace dtc
