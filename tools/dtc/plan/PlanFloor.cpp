#include "tools/dtc/plan/PlanFloor.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/marks.h"

#include <algorithm>
#include <set>

namespace dtc {

double leastKernelSeconds(const timing::Device &device, abi::Work::Class kind, abi::DataType type, double flops,
                          double bytes) {
  double share = 0;
  for (const timing::Efficiency &efficiency : device.efficiencies())
    if (efficiency.kernel_class() == abi::nameOf(kind) &&
        (efficiency.type().empty() || efficiency.type() == abi::nameOf(type)))
      for (const timing::Point &point : efficiency.points())
        share = std::max(share, point.share());
  double bound = std::max(flops / timing::peakFlops(device, type), bytes / device.memory_bandwidth());
  return device.launch_seconds() + bound / (share > 0 ? share : 1);
}

/// Whether every plan of the family does it, too.
static bool isOfFamily(const FlatCommand &command) {
  bool isOfPasses = command.direction == abi::FORWARD || command.direction == abi::INPUT_GRADIENT ||
                    command.direction == abi::WEIGHT_GRADIENT;
  bool isLarge = command.work.kind() == abi::Work::PRODUCT || command.work.kind() == abi::Work::ATTENTION;
  return command.kind == FlatCommand::Kind::Launch && command.isLibrary && isOfPasses && isLarge && !command.isAgain;
}

using KernelTimes = std::vector<double>; // of one kernel, on each kind of device

/// Adds up what `pick` makes of the seconds on each kind of device.
template <typename Pick>
static double sumOf(const FlatRole &role, const std::vector<const timing::Device *> &devices, Pick pick) {
  std::vector<int64_t> times(role.functions.size());
  for (const FlatEntry &entry : role.step)
    ++times[static_cast<size_t>(entry.function)];
  double seconds = 0;
  for (size_t number = 0; number < role.functions.size(); ++number)
    for (const FlatCommand &command : role.functions[number].commands) {
      if (times[number] == 0 || !isOfFamily(command))
        continue;
      KernelTimes each;
      for (const timing::Device *device : devices)
        each.push_back(leastKernelSeconds(*device, command.work.kind(), command.type, command.work.flops()));
      seconds += static_cast<double>(times[number]) * pick(each);
    }
  return seconds;
}

std::vector<const timing::Device *> devicesOf(const timing::Layout &layout) {
  std::set<int> kinds;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank)
    kinds.insert(layout.deviceIndexOf(rank));
  std::vector<const timing::Device *> devices;
  for (int kind : kinds)
    devices.push_back(&layout.cluster().devices(kind));
  return devices;
}

double floorOf(const Plan &plan, const timing::Layout &layout) {
  std::vector<const timing::Device *> devices = devicesOf(layout);
  double longest = 0, sum = 0;
  for (const PlannedRole &planned : plan.roles) {
    for (const timing::Device *device : devices)
      longest = std::max(longest, sumOf(*planned.role, {device}, [](const KernelTimes &each) { return each.front(); }));
    sum += sumOf(*planned.role, devices, [](const KernelTimes &each) { return std::ranges::min(each); });
  }
  bool mayBeCutOtherwise = plan.roles.size() > 1 && devices.size() > 1;
  return mayBeCutOtherwise ? sum / static_cast<double>(plan.roles.size()) : longest;
}

} // namespace dtc
