// Lints of what ranks move, and over which links.
#include "tools/dtc/advice/Axes.h"
#include "tools/dtc/advice/Lints.h"
#include "tools/dtc/advice/Traffic.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/written.h"
#include "timing/cost/cost.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/forecast/ForecastText.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace dtc {

namespace {

/// Waiting for less than a twentieth of a step needs no remedy: the share that `dtc compile --cluster` looks for
/// remedies from (tools/dtc/forecast/LessWaiting.h).
constexpr double notableWait = 0.05;

/// A link is slow where a device has less than a quarter of the innermost links' bandwidth. Two or three times less are
/// other generations of one kind of link. Another kind is slower by more: in the shipped cluster files NVLink is 9 to
/// 192 times as fast as what joins nodes (docs/clusters.md). Tensor parallelism belongs within a node: takeaway 1 of
/// Narayanan et al., arXiv:2104.04473.
constexpr double slowLink = 4;

/// Of a step. `dtc simulate --scale` remarks on the same shares (docs/simulation.md).
constexpr double muchCommunication = 0.2, mostlyCommunication = 0.5;

/// A collective is small where more than half of its time does not depend on its bytes: below that size, twice the
/// bytes take less than half as long again.
constexpr double mostlyLatency = 0.5;

bool isWorthwhile(const AdviceFacts &facts) { return facts.layout && facts.forecast && facts.forecast->seconds > 0; }

std::string ofStep(const timing::Forecast &forecast, double seconds) {
  return fmt::format("{} of a step of {} ({})", secondsText(seconds), secondsText(forecast.seconds),
                     percentText(seconds / forecast.seconds));
}

// tensor-parallel-over-slow-link

/// How far apart the members of a group are.
struct Reach {
  int level = -1; ///< the outermost that joins them
  bool crossesNodes = false, isSlow = false;
  bool isOutside() const { return crossesNodes || isSlow; }
};

Reach reachOf(const timing::Layout &layout, const std::vector<int64_t> &members) {
  Reach reach;
  if (members.size() < 2)
    return reach;
  for (int64_t member : members) {
    reach.level = std::max(reach.level, layout.levelBetween(members.front(), member));
    reach.crossesNodes |= layout.nodeOf(member) != layout.nodeOf(members.front());
  }
  const timing::Cluster &cluster = layout.cluster();
  reach.isSlow = slowLink * bandwidthOf(cluster.levels(reach.level)) < bandwidthOf(cluster.levels(0));
  return reach;
}

constexpr std::string_view tensorAxis = "tp";

/// The most ranks along tp that fast links of one node join, where they are next to each other.
int64_t mostInside(const abi::Mesh &mesh, const timing::Layout &layout) {
  int64_t all = axisSize(mesh, tensorAxis);
  for (int64_t size = all; size > 1; --size) {
    if (all % size != 0)
      continue;
    abi::Mesh divided; // tp last, and so innermost; its ranks are the first ones
    for (const abi::Axis &axis : mesh.axes())
      if (axis.name() != tensorAxis)
        *divided.add_axes() = axis;
    for (auto [name, ranks] : {std::pair("rest of tp", all / size), std::pair("tp", size)}) {
      abi::Axis &axis = *divided.add_axes();
      axis.set_name(name);
      axis.set_size(ranks);
    }
    timing::Cluster cluster = layout.cluster();
    cluster.clear_axis_order();
    std::vector<int64_t> members;
    for (int64_t rank = 0; rank < size; ++rank)
      members.push_back(rank);
    if (!reachOf(timing::Layout(cluster, divided), members).isOutside())
      return size;
  }
  return 1;
}

std::string tensorRemedy(const abi::Mesh &mesh, const timing::Layout &layout) {
  int64_t all = axisSize(mesh, tensorAxis), inside = mostInside(mesh, layout);
  if (inside == 1)
    return "take dp with zero3, or pp, in place of tp";
  if (inside < all)
    return fmt::format("take tp={} and {} times as many ranks along pp or dp", inside, all / inside);
  std::vector<std::string> order = {std::string(tensorAxis)};
  for (const std::string &axis : axesInsideOut(mesh, layout.cluster()))
    if (axis != tensorAxis)
      order.push_back(axis);
  return "put ranks of tp next to each other: " + orderText(mesh, layout.cluster(), order);
}

/// Collectives over tp whose members are far apart.
struct FarTensorGroups {
  CommandSet commands;
  Reach worst;
  double waited = 0; ///< seconds of a step
};

/// Nothing where ranks hardly wait for them.
std::optional<FarTensorGroups> findFarTensorGroups(const AdviceFacts &facts) {
  FarTensorGroups far;
  if (!isWorthwhile(facts) || axisSize(facts.program.mesh(), tensorAxis) < 2)
    return std::nullopt;
  for (const RoleTraffic &traffic : trafficOf(facts.program))
    for (const Moved &moved : traffic.moves) {
      if (!isOverAlone(facts.program.groups(static_cast<int>(moved.group)), tensorAxis) || !moved.command().has_start())
        continue;
      Reach reach = reachOf(*facts.layout, traffic.members[moved.group]);
      if (!reach.isOutside())
        continue;
      far.commands.emplace(moved.list->name(), moved.number);
      if (reach.level > far.worst.level)
        far.worst = reach;
    }
  far.waited = waitedFor(*facts.forecast, far.commands);
  if (far.waited <= notableWait * facts.forecast->seconds)
    return std::nullopt;
  return far;
}

std::optional<Finding> tensorParallelOverSlowLink(const AdviceFacts &facts) {
  std::optional<FarTensorGroups> far = findFarTensorGroups(facts);
  if (!far)
    return std::nullopt;
  const Reach &worst = far->worst;
  const timing::Cluster &cluster = facts.layout->cluster();
  const timing::Level &links = cluster.levels(worst.level), &inner = cluster.levels(0);
  std::string text =
      fmt::format("groups of tp={} {} {}, where a device has {}/s", axisSize(facts.program.mesh(), tensorAxis),
                  worst.crossesNodes ? "cross nodes over" : "cross", links.name(), bytesText(bandwidthOf(links)));
  if (worst.level > 0)
    text += fmt::format(" ({}/s over {})", bytesText(bandwidthOf(inner)), inner.name());
  text += fmt::format(": ranks wait for them {}, over {}", ofStep(*facts.forecast, far->waited),
                      percentText(notableWait));
  return Finding{"tensor-parallel-over-slow-link", text, tensorRemedy(facts.program.mesh(), *facts.layout),
                 far->waited / facts.forecast->seconds};
}

// exposed-communication

/// The commands of which lints with a narrower cause speak.
CommandSet saidElsewhere(const AdviceFacts &facts);

const abi::Command *commandOf(const abi::Manifest &program, const timing::Culprit &culprit) {
  for (const abi::CommandList &list : program.lists())
    if (list.name() == culprit.list && culprit.command < static_cast<uint32_t>(list.commands_size()))
      return &list.commands(static_cast<int>(culprit.command));
  return nullptr;
}

/// What ranks wait for over the same axes and in the same part of a step.
struct ExposedCause {
  std::map<int, double> byRank;
  double seconds = 0; ///< of the rank that waits longest
  const abi::Command *example = nullptr;
  std::string axes;
};

/// The cause for which some rank waits longest, without what other lints say.
ExposedCause worstCause(const AdviceFacts &facts, const CommandSet &said) {
  std::map<std::tuple<std::string, bool, bool>, ExposedCause> causes;
  for (const timing::Culprit &culprit : facts.forecast->culprits) {
    const abi::Command *command = commandOf(facts.program, culprit);
    if (!command || !abi::communicates(*command) || culprit.moving <= 0 ||
        said.contains(std::pair(culprit.list, culprit.command)))
      continue;
    std::string axes =
        axesText(facts.program.groups(static_cast<int>(abi::groupOf(*command))).axes(), facts.program.mesh());
    ExposedCause &cause = causes[{axes, command->has_start(), command->direction() == abi::UPDATE}];
    cause.seconds = std::max(cause.seconds, cause.byRank[culprit.rank] += culprit.moving);
    cause.axes = axes;
    if (!cause.example)
      cause.example = command;
  }
  ExposedCause worst;
  for (auto &[key, cause] : causes)
    if (cause.seconds > worst.seconds)
      worst = std::move(cause);
  return worst;
}

std::string causeText(const ExposedCause &cause) {
  const abi::Command &command = *cause.example;
  if (!command.has_start())
    return "for messages over " + cause.axes;
  if (command.direction() == abi::UPDATE)
    return fmt::format("for {} over {} once a step", kindText(command.start()), cause.axes);
  return fmt::format("for {} over {} within passes", kindText(command.start()), cause.axes);
}

/// What fits the cause. 'dtc compile --cluster' and 'dtc explain' name more micro-batches, a faster link and
/// annotations, which they have tried.
std::string exposedRemedy(const AdviceFacts &facts, const ExposedCause &cause) {
  const abi::Command &command = *cause.example;
  const abi::Group &group = facts.program.groups(static_cast<int>(abi::groupOf(command)));
  const abi::Training &training = facts.program.training();
  if (!command.has_start())
    return "take fewer stages along " + cause.axes + ", so that a pass hides more of a message";
  if (command.direction() == abi::UPDATE)
    return training.gradients() == "f32" && training.compute() != "f32" &&
                   isSumExact(facts.program, training.compute(), abi::membersOf(group))
               ? fmt::format("send gradients in 16 bits (--set gradients={}), or compute more samples a step",
                             training.compute())
               : std::string("compute more samples a step: what moves once a step stays the same");
  if (!isOver(group, "dp")) // tp or cp
    return fmt::format("take fewer ranks along {}, and more along dp or pp", cause.axes);
  return fmt::format(
      "take a strategy that moves less over {} in each micro-batch (zero1 in place of zero2 or zero3, if it fits), or "
      "fewer, larger micro-batches",
      cause.axes);
}

/// Where nothing is waited for that ranks send each other.
std::string exposedRemedyOfOne(const timing::Forecast &forecast) {
  if (forecast.stolen() > forecast.moving())
    return "start fewer ranks on a node, so that some of its cores are free to move data";
  return "keep in the device's memory what is copied to the host and back (another recompute than offload)";
}

/// As `dtc simulate --scale` counts: waiting for what moves, and computing more slowly because of it. Where other lints
/// name the cause of so much of it that the rest is little, nothing is left to say.
std::optional<Finding> exposedCommunication(const AdviceFacts &facts) {
  if (!isWorthwhile(facts))
    return std::nullopt;
  const timing::Forecast &forecast = *facts.forecast;
  double exposed = forecast.moving() + forecast.stolen(), share = exposed / forecast.seconds;
  if (share <= muchCommunication)
    return std::nullopt;
  CommandSet said = saidElsewhere(facts);
  if (exposed - waitedFor(forecast, said) <= muchCommunication * forecast.seconds)
    return std::nullopt;
  std::string text = fmt::format("communication is exposed for {}, over {}", ofStep(forecast, exposed),
                                 percentText(share > mostlyCommunication ? mostlyCommunication : muchCommunication));
  if (share > mostlyCommunication)
    text += ": it is most of the step";
  ExposedCause worst = worstCause(facts, said);
  if (worst.example)
    text += fmt::format("; a rank waits longest {}, {}", causeText(worst), secondsText(worst.seconds));
  return Finding{"exposed-communication", text,
                 worst.example ? exposedRemedy(facts, worst) : exposedRemedyOfOne(forecast), share};
}

// small-messages

/// The collectives whose time is mostly latency.
struct SmallMessages {
  CommandSet commands;
  int64_t most = 0;   ///< that a rank takes part in, in a step
  double largest = 0; ///< bytes
  double waited = 0;  ///< seconds of a step
};

/// All but those of groups along tp that are too far apart, whatever they send.
SmallMessages findSmall(const AdviceFacts &facts) {
  SmallMessages small;
  std::optional<FarTensorGroups> far = findFarTensorGroups(facts);
  const timing::Cluster &cluster = facts.layout->cluster();
  for (const RoleTraffic &traffic : trafficOf(facts.program)) {
    std::vector<timing::Span> spans;
    for (const std::vector<int64_t> &members : traffic.members)
      spans.push_back(facts.layout->spanOf(members));
    int64_t count = 0;
    for (const Moved &moved : traffic.moves) {
      if (!moved.command().has_start() || traffic.members[moved.group].size() < 2 ||
          (far && far->commands.contains(std::pair(moved.list->name(), moved.number))))
        continue;
      const abi::Collective &collective = moved.command().start();
      timing::CollectiveCost cost =
          timing::collectiveCost(cluster, collective.kind(), moved.payload, spans[moved.group], collective.type());
      if (cost.latency <= mostlyLatency * cost.seconds)
        continue;
      small.commands.emplace(moved.list->name(), moved.number);
      small.largest = std::max(small.largest, moved.payload);
      count += moved.times;
    }
    small.most = std::max(small.most, count);
  }
  small.waited = waitedFor(*facts.forecast, small.commands);
  return small;
}

/// For the one that ranks wait for longest.
std::string smallRemedy(const AdviceFacts &facts, const SmallMessages &small) {
  const abi::Training &training = facts.program.training();
  auto worst = std::ranges::find_if(facts.forecast->culprits, [&](const timing::Culprit &culprit) {
    return small.commands.contains(std::pair(culprit.list, culprit.command));
  });
  const abi::Command *command = commandOf(facts.program, *worst);
  if (training.bucket_bytes() == "none" && command->direction() == abi::UPDATE)
    return "join them: --set bucket_bytes=auto";
  if (command->direction() == abi::UPDATE)
    return "join more of them: a larger bucket_bytes";
  std::string axes =
      axesText(facts.program.groups(static_cast<int>(abi::groupOf(*command))).axes(), facts.program.mesh());
  if (training.accumulation() > 1)
    return fmt::format("take fewer, larger micro-batches (accumulation is {}), or fewer ranks along {}",
                       training.accumulation(), axes);
  return fmt::format("take fewer ranks along {}, or more samples a step", axes);
}

std::optional<Finding> smallMessages(const AdviceFacts &facts) {
  if (!isWorthwhile(facts))
    return std::nullopt;
  SmallMessages small = findSmall(facts);
  if (small.waited <= notableWait * facts.forecast->seconds)
    return std::nullopt;
  return Finding{
      "small-messages",
      fmt::format("a rank takes part in {} collectives of at most {} whose time is mostly latency, and waits "
                  "for them {}, over {}",
                  small.most, bytesText(small.largest), ofStep(*facts.forecast, small.waited),
                  percentText(notableWait)),
      smallRemedy(facts, small), small.waited / facts.forecast->seconds};
}

CommandSet saidElsewhere(const AdviceFacts &facts) {
  CommandSet said;
  if (std::optional<FarTensorGroups> far = findFarTensorGroups(facts))
    said = std::move(far->commands);
  if (SmallMessages small = findSmall(facts); small.waited > notableWait * facts.forecast->seconds)
    said.merge(small.commands);
  return said;
}

// groups-against-topology: Axes.h compares orders.

std::optional<Finding> groupsAgainstTopology(const AdviceFacts &facts) {
  if (!isWorthwhile(facts))
    return std::nullopt;
  std::optional<BetterOrder> better = findBetterOrder(facts.program, *facts.layout);
  if (!better || better->now.seconds - better->then.seconds <= leastSaving * facts.forecast->seconds)
    return std::nullopt;
  if (better->movesTensorInside && tensorParallelOverSlowLink(facts))
    return std::nullopt; // it says the same, with what ranks wait
  return Finding{
      "groups-against-topology",
      fmt::format("with the axes {} from the inside outwards a rank sends {} a step to other nodes, and with "
                  "{} {}: {} less of its link's time, over {} of a step",
                  fmt::join(better->present, ", "), bytesText(better->now.bytes), fmt::join(better->order, ", "),
                  bytesText(better->then.bytes), secondsText(better->now.seconds - better->then.seconds),
                  percentText(leastSaving)),
      orderText(facts.program.mesh(), facts.layout->cluster(), better->order),
      std::min(1.0, (better->now.seconds - better->then.seconds) / facts.forecast->seconds)};
}

} // namespace

std::span<const Lint> linkLints() {
  static constexpr std::array<Lint, 4> all = {{
      {"tensor-parallel-over-slow-link",
       "a group of tp crosses nodes, or links with less than a quarter of the innermost ones' bandwidth, and ranks "
       "wait "
       "for it over 5% of a step",
       tensorParallelOverSlowLink},
      {"exposed-communication",
       "ranks wait for what moves, or compute more slowly because of it, over 20% of a step, without what other lints "
       "say; over 50% it says so",
       exposedCommunication},
      {"small-messages", "ranks wait over 5% of a step for collectives of whose time more than half is latency",
       smallMessages},
      {"groups-against-topology",
       "another order of the axes sends over 10% fewer bytes between nodes, and links carry the difference for over 1% "
       "of a step",
       groupsAgainstTopology},
  }};
  return all;
}

} // namespace dtc
