#include "tools/dtc/plan/PlanFloor.h"

#include "passes/pipelines/search/CommandSeconds.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/marks.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace dtc {

double leastKernelSeconds(const timing::Device &device, abi::Work::Class kind, abi::DataType type, double flops) {
  double share = 0;
  for (const timing::Efficiency &efficiency : device.efficiencies())
    if (efficiency.kernel_class() == abi::nameOf(kind) &&
        (efficiency.type().empty() || efficiency.type() == abi::nameOf(type)))
      for (const timing::Point &point : efficiency.points())
        share = std::max(share, point.share());
  return device.launch_seconds() + flops / timing::peakFlops(device, type) / (share > 0 ? share : 1);
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

static std::vector<const timing::Device *> devicesOf(const timing::Layout &layout) {
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

namespace {

/// Seconds of one run of a function.
struct FunctionPasses {
  plans::StagePasses once; ///< without what is recomputed
  double again = 0;
  double all() const { return once.forward + once.input + once.weight + again; }
};

} // namespace

/// In every relative (addPasses).
static double surelySeconds(const FlatCommand &command, const CommandSeconds &seconds, double launch) {
  bool isSum = command.work.kind() == abi::Work::REDUCTION; // of a bias's gradient, say
  if (command.kind != FlatCommand::Kind::Launch ||
      (command.direction == abi::WEIGHT_GRADIENT && !command.isLibrary && !command.isAgain && !isSum))
    return 0;
  return std::max(0.0, seconds.ofLaunch(command.work, command.type) - (command.formula != 0 ? launch : 0));
}

static FunctionPasses passesOf(const FlatFunction &function, const CommandSeconds &seconds, double launch) {
  FunctionPasses passes;
  for (const FlatCommand &command : function.commands) {
    double each = surelySeconds(command, seconds, launch);
    if (command.isAgain)
      passes.again += each;
    else if (command.direction == abi::FORWARD)
      passes.once.forward += each;
    else if (command.direction == abi::INPUT_GRADIENT)
      passes.once.input += each;
    else if (command.direction == abi::WEIGHT_GRADIENT)
      passes.once.weight += each;
  }
  return passes;
}

/// Adds the stages of a role, on its device, and returns the seconds of its step.
static double addStages(const FlatRole &role, const timing::Device &device, const timing::Layout &layout,
                        const abi::Mesh &mesh, std::map<int64_t, plans::StagePasses> &least) {
  CommandSeconds seconds(device, &layout, mesh);
  std::vector<FunctionPasses> functions;
  for (const FlatFunction &function : role.functions)
    functions.push_back(passesOf(function, seconds, device.launch_seconds()));
  double busy = 0;
  std::map<std::pair<int64_t, int64_t>, plans::StagePasses> each; // by stage and micro-batch
  for (const FlatEntry &entry : role.step) {
    const FunctionPasses &passes = functions[static_cast<size_t>(entry.function)];
    busy += passes.all();
    if (entry.microBatch < 0)
      continue;
    plans::StagePasses &sum = each[{role.functions[static_cast<size_t>(entry.function)].stage, entry.microBatch}];
    sum.forward += passes.once.forward;
    sum.input += passes.once.input;
    sum.weight += passes.once.weight;
  }
  for (const auto &[key, sum] : each) {
    plans::StagePasses &of = least.try_emplace(key.first, sum).first->second;
    of = {std::min(of.forward, sum.forward), std::min(of.input, sum.input), std::min(of.weight, sum.weight)};
  }
  return busy;
}

void addPasses(const Plan &plan, const timing::Layout &layout, const abi::Mesh &mesh, plans::Evaluated &evaluated) {
  std::vector<const timing::Device *> devices = devicesOf(layout);
  if (plan.roles.size() > 1 && devices.size() > 1)
    return;
  std::map<int64_t, plans::StagePasses> stages;
  for (const timing::Device *device : devices)
    for (const PlannedRole &planned : plan.roles)
      evaluated.busy = std::max(evaluated.busy, addStages(*planned.role, *device, layout, mesh, stages));
  for (const auto &[stage, passes] : stages)
    evaluated.passes.push_back(passes);
}

} // namespace dtc
