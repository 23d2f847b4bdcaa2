// dtc explain --order: of everything that a step moves how much is hidden, behind what, and what holds it.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/cluster/cluster.h"

namespace dtc {

/// What the first rank of each role moves in a simulated step, in the order in which its lists start it; equal layers
/// once. Says nothing of a program that generates, as that has no step.
void explainOrder(const abi::Manifest &manifest, const timing::Layout &layout, bool asJson);

} // namespace dtc
