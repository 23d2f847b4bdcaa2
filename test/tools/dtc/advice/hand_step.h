// Programs of which only a step's kernels and what it moves are written down, and clusters on which a flop takes a
// second.
#pragma once

#include "test/runtime/program/manifests.h"
#include "test/timing/events/steps.h"
#include "timing/events/forecast.h"
#include "tools/dtc/advice/Advice.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtc::test {

/// Nodes of some devices each. Links of one rate join the devices of a node, and links of another all nodes.
inline timing::Cluster nodesOf(uint32_t nodes, uint32_t devices, double within, double between) {
  timing::Cluster cluster = timing::unitCluster(devices);
  cluster.mutable_nodes(0)->set_count(nodes);
  cluster.mutable_levels(0)->set_name("inside");
  cluster.mutable_levels(0)->set_bandwidth(within);
  timing::Level &outside = *cluster.add_levels();
  outside.set_name("outside");
  outside.set_bandwidth(between);
  return cluster;
}

class HandStep {
public:
  explicit HandStep(const std::vector<std::pair<std::string, int64_t>> &axes) {
    for (const auto &[name, size] : axes) {
      abi::Axis &axis = *manifest.mutable_mesh()->add_axes();
      axis.set_name(name);
      axis.set_size(size);
    }
    manifest.mutable_training()->set_global_batch(1);
    manifest.mutable_training()->set_accumulation(1);
    manifest.mutable_training()->set_sequence_length(1);
  }

  /// Of these ranks; of all, where none are named. Lists that follow are the role's.
  HandStep &role(const std::string &name, const std::vector<uint32_t> &ranks = {}) {
    abi::Role &role = *manifest.add_roles();
    role.set_name(name);
    for (uint32_t rank : ranks) {
      abi::RankRange &range = *role.add_ranks();
      range.set_first(rank);
      range.set_count(1);
    }
    return *this;
  }

  /// Commands that follow are the list's, which a step runs once for each of these micro-batches, or once for none.
  HandStep &list(const std::string &name, const std::vector<int64_t> &microBatches = {}) {
    addList(manifest, name);
    abi::Role &role = *manifest.mutable_roles(manifest.roles_size() - 1);
    if (microBatches.empty())
      addEntry(role, abi::stepTimetable, name);
    for (int64_t microBatch : microBatches)
      addEntry(role, abi::stepTimetable, name).set_micro_batch(microBatch);
    return *this;
  }

  HandStep &compute(double seconds) {
    abi::Command &command = *manifest.mutable_lists()->rbegin()->add_commands();
    command.mutable_launch();
    command.mutable_work()->set_kind(abi::Work::PRODUCT);
    command.mutable_work()->set_flops(seconds);
    return *this;
  }

  /// An all-reduce of so many elements, which is waited for at once; in so many parts, each of that size. "all" stands
  /// for all axes together.
  HandStep &reduce(const std::string &axis, int64_t elements, abi::Direction direction = abi::UPDATE, int parts = 1,
                   abi::DataType type = abi::F32) {
    uint32_t token = nextToken++;
    for (int part = 0; part < parts; ++part) {
      abi::Command &command = *manifest.mutable_lists()->rbegin()->add_commands();
      command.set_direction(direction);
      abi::Collective &start = *command.mutable_start();
      start.set_kind(abi::Collective::ALL_REDUCE);
      start.set_group(groupOf(axis));
      start.set_type(type);
      start.set_outer(1);
      start.set_chunk(elements);
      start.set_token(token);
      start.set_more(part + 1 < parts);
    }
    return wait(token);
  }

  /// To the rank `shift` places on along an axis, or from there.
  HandStep &send(const std::string &axis, int64_t shift, int64_t elements) {
    abi::Command &command = *manifest.mutable_lists()->rbegin()->add_commands();
    return transfer(*command.mutable_send(), axis, shift, elements);
  }
  HandStep &receive(const std::string &axis, int64_t shift, int64_t elements) {
    abi::Command &command = *manifest.mutable_lists()->rbegin()->add_commands();
    return transfer(*command.mutable_recv(), axis, shift, elements);
  }

  abi::Manifest manifest;

private:
  uint32_t groupOf(const std::string &axis) {
    abi::AxisRefs axes;
    for (const abi::Axis &each : manifest.mesh().axes())
      if (each.name() == axis || axis == "all")
        *axes.Add() = wholeAxis(each.name(), each.size());
    return findOrAddGroup(manifest, axes);
  }
  HandStep &wait(uint32_t token) {
    manifest.mutable_lists()->rbegin()->add_commands()->mutable_wait()->set_token(token);
    return *this;
  }
  HandStep &transfer(abi::Transfer &made, const std::string &axis, int64_t shift, int64_t elements) {
    made.set_group(groupOf(axis));
    made.set_shift(shift);
    made.set_type(abi::F32);
    made.set_elements(elements);
    made.set_token(nextToken++);
    return wait(made.token());
  }

  uint32_t nextToken = 0;
};

/// What the lint of that name finds: without a cluster, or on one.
inline std::optional<Finding> look(std::string_view name, const AdviceFacts &facts) {
  auto lint = std::ranges::find(lints(), name, &Lint::name);
  if (lint == lints().end())
    throw std::logic_error("no lint " + std::string(name));
  return lint->look(facts);
}
inline std::optional<Finding> look(std::string_view name, const abi::Manifest &program) {
  return look(name, AdviceFacts{program});
}
inline std::optional<Finding> look(std::string_view name, const abi::Manifest &program,
                                   const timing::Cluster &cluster) {
  timing::Layout layout(cluster, program.mesh());
  timing::Forecast forecast = timing::forecastStep(program, layout);
  return look(name, AdviceFacts{program, &layout, &forecast});
}

} // namespace dtc::test
