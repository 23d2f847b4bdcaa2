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

/// Whether gradients may be summed in a type, "bf16" or "f16", over so many ranks: `sums-in-16-bits` would not fire.
bool isSumExact(const abi::Manifest &program, std::string_view type, int64_t ranks);

} // namespace dtc
