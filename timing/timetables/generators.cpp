#include "timing/timetables/generators.h"

#include <algorithm>
#include <array>

namespace dtc::timing {

static std::vector<Pass> naive(int64_t, int64_t, int64_t microBatches) {
  std::vector<Pass> passes;
  for (int64_t micro = 0; micro < microBatches; ++micro) {
    passes.push_back({PassKind::Forward, micro});
    passes.push_back({PassKind::Backward, micro});
  }
  return passes;
}

/// `ahead` forward passes before the first backward pass; then the two take turns as long as there are any.
static std::vector<Pass> inTurns(int64_t ahead, int64_t microBatches) {
  std::vector<Pass> passes;
  int64_t forward = 0;
  for (; forward < ahead; ++forward)
    passes.push_back({PassKind::Forward, forward});
  for (int64_t backward = 0; backward < microBatches; ++backward) {
    passes.push_back({PassKind::Backward, backward});
    if (forward < microBatches)
      passes.push_back({PassKind::Forward, forward++});
  }
  return passes;
}

static std::vector<Pass> gpipe(int64_t, int64_t, int64_t microBatches) { return inTurns(microBatches, microBatches); }

static std::vector<Pass> oneForwardOneBackward(int64_t stage, int64_t stages, int64_t microBatches) {
  return inTurns(std::min(microBatches, stages - stage), microBatches);
}

static constexpr std::array<std::string_view, 3> names = {"naive", "gpipe", "1f1b"};
static constexpr std::array<Generator, 3> generators = {naive, gpipe, oneForwardOneBackward};

Generator findGenerator(std::string_view name) {
  auto found = std::ranges::find(names, name);
  return found == names.end() ? nullptr : generators[static_cast<size_t>(found - names.begin())];
}

std::span<const std::string_view> generatorNames() { return names; }

} // namespace dtc::timing
