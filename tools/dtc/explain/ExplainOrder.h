// dtc explain --order: how much of each transfer in a step is hidden, behind what, and what exposes the rest.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/cluster/cluster.h"
#include "tools/dtc/forecast/LessWaiting.h"

#include <functional>

namespace dtc {

/// What the first rank of each role moves in a simulated step, in the order in which its lists start it, equal layers
/// once; and what would make ranks wait less. Only the compiler can say whether more micro-batches would. Prints
/// nothing for a program that generates, as that has no step.
void explainOrder(const abi::Manifest &manifest, const timing::Layout &layout, bool asJson,
                  const std::function<std::optional<MoreAccumulation>()> &askForAccumulation);

} // namespace dtc
