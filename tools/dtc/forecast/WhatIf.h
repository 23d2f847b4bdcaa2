// Changes that simulations make to a cluster: --what-if on the command line.
#pragma once

#include "timing/events/simulate.h"

#include <string>
#include <vector>

namespace dtc {

inline constexpr const char *whatIfHelp =
    "Simulate again with something changed: bandwidth=0.5 (of all links; bandwidth.NVLink=0.5: of one level), "
    "latency=2 likewise, memory=0.8 (the devices' memory bandwidth), compute=0.9 (their peaks), rank.3=1.5 (rank 3's "
    "kernels take that much longer)";

/// Applies one change, "bandwidth.NVLink=0.5". Throws Error (BadInput) where the cluster has nothing of that name, and
/// lists what it has.
void applyWhatIf(const std::string &text, int64_t ranks, timing::Cluster &cluster, timing::Conditions &conditions);

} // namespace dtc
