// Handmade steps, and a cluster on which a flop takes a second.
#pragma once

#include "timing/events/simulate.h"
#include "timing/timetables/named.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::timing {

/// `devices` devices, a flop a second, and a link that moves a byte a second.
inline Cluster unitCluster(int64_t devices, double latency = 0, double processorShare = 0) {
  Cluster cluster;
  cluster.set_name("units");
  Device &device = *cluster.add_devices();
  device.set_name("unit");
  Peak &peak = *device.add_peaks();
  peak.set_type("f32");
  peak.set_flops(1);
  device.set_memory_bandwidth(1);
  Nodes &nodes = *cluster.add_nodes();
  nodes.set_count(1);
  nodes.set_device("unit");
  nodes.set_devices(static_cast<uint32_t>(devices));
  Level &level = *cluster.add_levels();
  level.set_name("link");
  level.set_bandwidth(1);
  level.set_latency(latency);
  level.set_processor_share(processorShare);
  return cluster;
}

/// Writes lists of actions.
class StepBuilder {
public:
  explicit StepBuilder(std::vector<std::pair<std::string, int64_t>> axes) : tables(step) {
    int64_t ranks = 1;
    for (auto &[name, size] : axes) {
      abi::Axis &axis = *step.mesh.add_axes();
      axis.set_name(name);
      axis.set_size(size);
      ranks *= size;
    }
    step.roleOf.assign(static_cast<size_t>(ranks), 0);
  }

  uint32_t addGroup(const std::string &axis, uint32_t channel) {
    abi::Group &group = step.groups.emplace_back();
    abi::AxisRef &ref = *group.add_axes();
    ref.set_axis(axis);
    ref.set_pre(1);
    for (const abi::Axis &each : step.mesh.axes())
      if (each.name() == axis)
        ref.set_size(each.size());
    group.set_channel(channel);
    return static_cast<uint32_t>(step.groups.size() - 1);
  }

  /// A list of its own, which `role` runs next.
  StepBuilder &list(size_t role, int64_t microBatch = -1, std::vector<uint32_t> places = {}) {
    if (step.roles.size() <= role)
      step.roles.resize(role + 1);
    step.roles[role].entries.push_back(
        {static_cast<uint32_t>(step.lists.size()), microBatch, static_cast<uint32_t>(role), std::move(places)});
    step.lists.emplace_back().name = "list " + std::to_string(step.lists.size());
    return *this;
  }
  StepBuilder &compute(double seconds) {
    return add(
        {.kind = Action::Kind::Launch, .index = tables.add(KernelWork{abi::Work::PRODUCT, abi::F32, seconds, 0})});
  }
  /// Between two ranks an all-gather of 2 n bytes takes n seconds.
  StepBuilder &start(uint32_t group, double payload, uint32_t token) {
    return add({.kind = Action::Kind::Start,
                .index = tables.add(Move{group, abi::Collective::ALL_GATHER, abi::F32, payload}),
                .token = token});
  }
  /// To the host's memory, or back.
  StepBuilder &hostCopy(double bytes, uint32_t token, uint32_t channel) {
    return add({.kind = Action::Kind::StartCopy,
                .index = tables.add(KernelWork{abi::Work::MOVEMENT, abi::F32, 0, 2 * bytes}),
                .token = token,
                .channel = channel,
                .isOfHost = true});
  }
  StepBuilder &send(uint32_t group, int32_t shift, double bytes, uint32_t token) {
    return add({.kind = Action::Kind::Send,
                .index = tables.add(Move{group, abi::Collective::ALL_REDUCE, abi::F32, bytes}),
                .token = token,
                .shift = shift});
  }
  StepBuilder &receive(uint32_t group, int32_t shift, double bytes, uint32_t token) {
    return add({.kind = Action::Kind::Receive,
                .index = tables.add(Move{group, abi::Collective::ALL_REDUCE, abi::F32, bytes}),
                .token = token,
                .shift = shift});
  }
  StepBuilder &wait(uint32_t token) { return add({.kind = Action::Kind::Wait, .token = token}); }

  Step step;

private:
  StepBuilder &add(Action action) {
    StepList &list = step.lists.back();
    action.command = static_cast<uint32_t>(list.actions.size());
    step.tokens = std::max(step.tokens, action.token + 1);
    list.actions.push_back(action);
    return *this;
  }
  StepTables tables;
};

/// A pipeline whose passes take a second each, and whose messages take none.
inline Step pipeline(std::string_view timetable, int64_t stages, int64_t microBatches) {
  StepBuilder builder({{"pp", stages}});
  std::vector<uint32_t> groups; // of each direction and of even and odd cuts
  for (uint32_t channel = 0; channel < 4; ++channel)
    groups.push_back(builder.addGroup("pp", channel));
  timetables::Timetable passes =
      timetables::generate(timetable, {.ranks = static_cast<int32_t>(stages),
                                       .stagesPerRank = 1,
                                       .microBatches = static_cast<int32_t>(microBatches)});
  for (int64_t stage = 0; stage < stages; ++stage) {
    builder.step.roleOf[static_cast<size_t>(stage)] = static_cast<int>(stage);
    for (const timetables::Entry &pass : passes.ranks[static_cast<size_t>(stage)]) {
      bool isForward = pass.kind == timetables::Kind::Forward;
      int64_t before = isForward ? stage - 1 : stage + 1, behind = isForward ? stage + 1 : stage - 1;
      auto over = [&](int64_t other) { return groups[(isForward ? 0 : 2) + std::min(stage, other) % 2]; };
      auto token = static_cast<uint32_t>(4 * pass.microBatch + (isForward ? 0 : 2));
      builder.list(static_cast<size_t>(stage), pass.microBatch);
      if (before >= 0 && before < stages)
        builder.receive(over(before), static_cast<int32_t>(before - stage), 0, token).wait(token);
      builder.compute(1);
      if (behind >= 0 && behind < stages)
        builder.send(over(behind), static_cast<int32_t>(behind - stage), 0, token + 1);
    }
  }
  return builder.step;
}

} // namespace dtc::timing
