// Works out what each class runs, how long it takes, and whom it meets.
#include "timing/events/plan.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/groups.h"
#include "runtime/abi/volume.h"
#include "runtime/abi/written.h"

#include <algorithm>

namespace dtc::timing {

SimulationPlan::SimulationPlan(const Step &step, const Layout &layout, const Conditions &conditions)
    : step(step), layout(layout), conditions(conditions), classes(step, layout, conditions.slowness) {
  for (const StepRole &role : step.roles)
    for (const StepEntry &entry : role.entries)
      for (uint32_t place : entry.places)
        places = std::max(places, place + 1);
  ofClass.resize(classes.count());
  for (int number = 0; number < classes.count(); ++number)
    planClass(number);
}

void SimulationPlan::planClass(int number) {
  OfClass &own = ofClass[number];
  int rank = classes.representativeOf(number);
  own.role = step.roleOf[rank];
  own.host = layout.deviceOf(rank).step_seconds();
  own.lists.resize(step.lists.size());
  own.targets.resize(step.lists.size());
  for (const StepEntry &entry : step.roles[own.role].entries) {
    if (own.lists[entry.list])
      continue;
    own.lists[entry.list] = timedList(entry.list, number);
    for (const Action &action : step.lists[entry.list].actions)
      own.targets[entry.list].push_back(targetOf(number, action));
  }
}

static bool isCompute(const Action &action) {
  return action.kind == Action::Kind::Launch || action.kind == Action::Kind::Copy;
}

/// Ranks that share fewer cores than they have threads take turns.
static double crowding(const Layout &layout, int rank) {
  int64_t cores = layout.coresOfNodeOf(rank);
  auto threads = static_cast<double>(layout.ranksOnNodeOf(rank) * layout.deviceOf(rank).threads());
  return cores > 0 ? std::max(1.0, threads / static_cast<double>(cores)) : 1;
}

const TimedList *SimulationPlan::timedList(uint32_t list, int number) {
  int rank = classes.representativeOf(number);
  double factor = classes.slownessOf(number) * crowding(layout, rank);
  auto [entry, isNew] = timed.try_emplace({list, layout.deviceIndexOf(rank), factor});
  TimedList &made = entry->second;
  if (!isNew)
    return &made;
  const StepList &source = step.lists[list];
  size_t count = source.actions.size();
  made.until.resize(count + 1);
  made.nextSync.resize(count + 1);
  for (size_t at = 0; at < count; ++at) {
    const Action &action = source.actions[at];
    double seconds = 0;
    if (isCompute(action)) {
      auto measured = conditions.measured.empty() ? conditions.measured.end()
                                                  : conditions.measured.find({source.name, action.command});
      seconds = measured != conditions.measured.end()
                    ? measured->second * classes.slownessOf(number)
                    : kernelSeconds(layout.deviceOf(rank), step.works[action.index]) * factor;
    }
    made.until[at + 1] = made.until[at] + seconds;
  }
  made.nextSync[count] = static_cast<uint32_t>(count);
  for (size_t at = count; at-- > 0;)
    made.nextSync[at] = isCompute(source.actions[at]) ? made.nextSync[at + 1] : static_cast<uint32_t>(at);
  return &made;
}

const CollectiveCost *SimulationPlan::costOf(const Move &move, const Span &span) {
  auto [entry, isNew] = collectiveCosts.try_emplace({move.kind, move.type, move.payload, span.units});
  if (isNew)
    entry->second = collectiveCost(layout.cluster(), move.kind, move.payload, span, move.type);
  return &entry->second;
}

const CollectiveCost *SimulationPlan::costOfTransfer(double bytes, int level) {
  auto [entry, isNew] = transferCosts.try_emplace({bytes, level});
  if (isNew)
    entry->second = transferCost(layout.cluster(), level, bytes);
  return &entry->second;
}

/// On a channel that only this class uses, numbered after the channels of communication.
Target SimulationPlan::targetOfCopy(int number, const Action &action) {
  const Device &device = layout.deviceOf(classes.representativeOf(number));
  auto [channel, isNewChannel] =
      copyChannels.try_emplace({number, action.channel}, static_cast<int>(encounters.size()));
  if (isNewChannel)
    encounters.push_back({{number}, abi::MaximumChannels + action.channel, 1});
  bool crossesLink = action.isOfHost && device.threads() == 0; // a processor's memory is the host's
  auto [cost, isNew] =
      copyCosts.try_emplace({layout.deviceIndexOf(classes.representativeOf(number)), action.index, crossesLink});
  if (isNew && crossesLink) {
    cost->second.seconds = hostCopySeconds(device, step.works[action.index].bytes / 2); // read and written
  } else if (isNew) {
    cost->second.seconds = kernelSeconds(device, step.works[action.index]);
    cost->second.processorSeconds = device.threads() > 0 ? cost->second.seconds : 0; // one of its threads copies
  }
  return {.encounter = channel->second, .cost = &cost->second};
}

Target SimulationPlan::targetOf(int number, const Action &action) {
  using Kind = Action::Kind;
  if (action.kind == Kind::StartCopy)
    return targetOfCopy(number, action);
  Target target;
  if (isCompute(action) || action.kind == Kind::Wait)
    return target;
  const Move &move = step.moves[action.index];
  const abi::Group &group = step.groups[move.group];
  auto encounterIn = [&](auto &table, auto key, std::vector<int> members) {
    auto [entry, isNew] = table.try_emplace(std::move(key), static_cast<int>(encounters.size()));
    if (isNew)
      encounters.push_back({std::move(members), group.channel(), 0});
    return entry->second;
  };
  if (action.kind == Kind::Start) {
    const GroupView &view = classes.groupOf(number, move.group);
    target.encounter = encounterIn(collectives, std::pair(move.group, view.classes), view.classes);
    encounters[target.encounter].arrivals = static_cast<int>(view.classes.size());
    target.cost = costOf(move, view.span);
    target.sent = abi::sentBytes(move.kind, move.payload, view.span.members);
    return target;
  }
  target.receives = action.kind == Kind::Receive;
  Peer peer = classes.peerOf(number, move.group, action.shift);
  int sender = target.receives ? peer.ofClass : number, receiver = target.receives ? number : peer.ofClass;
  int64_t members = abi::membersOf(group);
  int64_t shift = abi::shifted(0, target.receives ? -action.shift : action.shift, members);
  target.encounter = encounterIn(transfers, std::tuple(move.group, sender, receiver, shift),
                                 sender == receiver ? std::vector{sender} : std::vector{sender, receiver});
  encounters[target.encounter].arrivals = 2;
  encounters[target.encounter].isTransfer = true;
  target.cost = costOfTransfer(move.payload, peer.level);
  target.sent = target.receives ? 0 : move.payload;
  return target;
}

} // namespace dtc::timing
