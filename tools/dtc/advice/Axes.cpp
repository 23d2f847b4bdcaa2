#include "tools/dtc/advice/Axes.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/volume.h"
#include "tools/dtc/advice/Figures.h"
#include "tools/dtc/advice/Traffic.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace dtc {

double bandwidthOf(const timing::Level &links) { return links.bandwidth() / std::max<uint32_t>(1, links.shared_by()); }

std::vector<std::string> axesInsideOut(const abi::Mesh &mesh, const timing::Cluster &cluster) {
  std::vector<std::string> order;
  auto add = [&](const std::string &name) {
    if (axisSize(mesh, name) > 1 && std::ranges::find(order, name) == order.end())
      order.push_back(name);
  };
  for (const std::string &name : cluster.axis_order())
    add(name);
  for (int axis = mesh.axes_size() - 1; axis >= 0; --axis)
    add(mesh.axes(axis).name());
  return order;
}

std::string orderText(const abi::Mesh &mesh, const timing::Cluster &cluster,
                      const std::vector<std::string> &insideOut) {
  std::vector<std::string> words;
  if (cluster.axis_order_size() > 0) {
    for (const std::string &axis : insideOut)
      words.push_back(fmt::format("axis_order: \"{}\"", axis));
    return fmt::format("place the ranks in that order, with {} in the cluster file", fmt::join(words, " "));
  }
  for (auto axis = insideOut.rbegin(); axis != insideOut.rend(); ++axis)
    words.push_back(fmt::format("{}={}", *axis, axisSize(mesh, *axis)));
  return fmt::format("--mesh {}", fmt::join(words, ","));
}

namespace {

/// What is sent to the same ranks in the same way.
struct Flow {
  std::vector<int64_t> members; ///< of the group; of a transfer, sender and receiver
  bool isTransfer = false, isOfTensorAxis = false;
  abi::Collective::Kind kind = abi::Collective::ALL_REDUCE;
  double payload = 0; ///< of a step, times the share of ranks that do this
};

std::vector<Flow> flowsOf(const abi::Manifest &program, int64_t ranks) {
  std::vector<Flow> flows;
  Mesh mesh(program.mesh());
  for (const RoleTraffic &traffic : trafficOf(program)) {
    std::map<std::tuple<uint32_t, int, int64_t>, Flow> ofRole; // by group, kind, shift
    for (const Moved &moved : traffic.moves) {
      const abi::Command &command = moved.command();
      const abi::Group &group = program.groups(static_cast<int>(moved.group));
      bool isTransfer = !command.has_start();
      int64_t shift = isTransfer ? command.send().shift() : 0;
      Flow &flow = ofRole[{moved.group, isTransfer ? -1 : static_cast<int>(command.start().kind()), shift}];
      if (flow.members.empty()) {
        flow.members = traffic.members[moved.group];
        if (isTransfer)
          flow.members = {traffic.first, mesh.neighbour(static_cast<int>(traffic.first), group, shift)};
        flow.isTransfer = isTransfer;
        flow.isOfTensorAxis = isOverAlone(group, "tp");
        flow.kind = command.start().kind();
      }
      flow.payload += moved.payload * static_cast<double>(moved.times) * static_cast<double>(traffic.ranks) /
                      static_cast<double>(ranks);
    }
    for (auto &[key, flow] : ofRole)
      if (flow.members.size() > 1)
        flows.push_back(std::move(flow));
  }
  return flows;
}

/// What crosses nodes in one layout.
struct CrossingFlows {
  BetweenNodes sum;
  bool hasTensorAxis = false;
};

CrossingFlows crossing(const std::vector<Flow> &flows, const timing::Layout &layout) {
  CrossingFlows result;
  for (const Flow &flow : flows) {
    std::set<int64_t> nodes;
    int level = 0;
    for (int64_t member : flow.members) {
      nodes.insert(layout.nodeOf(member));
      level = std::max(level, layout.levelBetween(flow.members.front(), member));
    }
    if (nodes.size() < 2)
      continue;
    auto count = static_cast<int64_t>(nodes.size());
    double each = static_cast<double>(flow.members.size()) / static_cast<double>(count);
    double bytes = flow.payload;
    if (!flow.isTransfer)
      bytes = abi::sentBytes(flow.kind, flow.payload, count) / (flow.kind == abi::Collective::ALL_TO_ALL ? 1 : each);
    result.sum.bytes += bytes;
    result.sum.seconds += bytes / bandwidthOf(layout.cluster().levels(level));
    result.hasTensorAxis |= flow.isOfTensorAxis;
  }
  return result;
}

timing::Layout layoutWith(const timing::Layout &layout, const abi::Mesh &mesh, const std::vector<std::string> &order) {
  timing::Cluster cluster = layout.cluster();
  cluster.clear_axis_order();
  for (const std::string &axis : order)
    cluster.add_axis_order(axis);
  return {cluster, mesh};
}

} // namespace

std::optional<BetterOrder> findBetterOrder(const abi::Manifest &program, const timing::Layout &layout) {
  constexpr size_t mostAxes = 6; // 720 orders
  BetterOrder better;
  better.present = better.order = axesInsideOut(program.mesh(), layout.cluster());
  if (better.present.size() < 2 || better.present.size() > mostAxes)
    return std::nullopt;
  std::vector<Flow> flows = flowsOf(program, layout.ranks());
  CrossingFlows now = crossing(flows, layout), best = now;
  std::vector<size_t> numbers(better.present.size());
  std::iota(numbers.begin(), numbers.end(), size_t(0));
  while (std::ranges::next_permutation(numbers).found) {
    std::vector<std::string> order;
    for (size_t number : numbers)
      order.push_back(better.present[number]);
    CrossingFlows tried = crossing(flows, layoutWith(layout, program.mesh(), order));
    bool movesTensorOutside = tried.hasTensorAxis && !now.hasTensorAxis;
    if (tried.sum.bytes < best.sum.bytes && !movesTensorOutside) {
      best = tried;
      better.order = order;
    }
  }
  better.now = now.sum;
  better.then = best.sum;
  better.movesTensorInside = now.hasTensorAxis && !best.hasTensorAxis;
  if (best.sum.bytes >= (1 - leastFewer) * now.sum.bytes)
    return std::nullopt;
  return better;
}

} // namespace dtc
