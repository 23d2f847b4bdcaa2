// The lints by theme. Advice.cpp joins them.
#pragma once

#include "tools/dtc/advice/Advice.h"
#include "tools/dtc/advice/Figures.h"

#include <span>

namespace dtc {

std::span<const Lint> linkLints();
std::span<const Lint> batchLints();
std::span<const Lint> memoryLints();
std::span<const Lint> trainingLints();

} // namespace dtc
