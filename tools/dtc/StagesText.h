// How the cut of a pipeline is put in words.
#pragma once

#include "passes/pipelines/search/BalanceStages.h"

#include <string>
#include <vector>

namespace dtc {

/// "layers of the stages: [4, 4, 3, 1]: the slowest rank takes 1.2 ms a micro-batch instead of 1.6 ms with
/// [3, 3, 3, 3], 25.0% less".
std::string balancedText(const BalancedStages &balanced);

/// Likewise of a profile: first what stages took, and how uneven that is.
std::vector<std::string> profiledLines(const ProfiledStages &profiled);

} // namespace dtc
