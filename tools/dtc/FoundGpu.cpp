#include "tools/dtc/FoundGpu.h"

#include "runtime/device/cuda/gpu.h"
#include "runtime/support/error.h"
#include "tools/dtc/Targets.h"

#include <fmt/format.h>
#include <string_view>

namespace dtc {

/// Empty where all targets are newer.
static std::string newestTarget(int architecture) {
  constexpr std::string_view Prefix = "cuda:sm_";
  std::string newest;
  int best = 0;
  for (std::string_view name : targetNames) {
    if (!name.starts_with(Prefix))
      continue;
    int number = std::stoi(std::string(name.substr(Prefix.size())));
    if (number <= architecture && number > best) {
      best = number;
      newest = name;
    }
  }
  return newest;
}

FoundGpu findGpu() {
  try {
    cuda::Gpu gpu({});
    gpu.makeCurrent();
    size_t free = 0, total = 0;
    gpu.driver.check(gpu.driver.memGetInfo(&free, &total), "cannot ask for the GPU's memory");
    std::string target = newestTarget(gpu.architecture());
    if (target.empty())
      throw Error(fmt::format("{} is older than all targets of dtc", gpu.name()));
    return {gpu.modelName(), target, total};
  } catch (const Error &error) {
    throw Error(fmt::format("--target cuda measures a GPU of this machine: {}", error.what()));
  }
}

} // namespace dtc
