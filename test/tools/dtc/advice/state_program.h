// A handmade program for lints on state: four layers on data-parallel ranks, and clusters of one figure that matters.
#pragma once

#include "tools/dtc/advice/Lints.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace dtc::advice_test {

inline constexpr int64_t Layers = 4, LayerElements = 12'500'000;

inline abi::AxisRef axisRef(const std::string &name, int64_t size) {
  abi::AxisRef axis;
  axis.set_axis(name);
  axis.set_pre(1);
  axis.set_size(size);
  return axis;
}

/// One role for all ranks of the mesh dp=`ranks`. Each layer has a parameter, two slots and a gradient of
/// `LayerElements` f32: 200 MB of each kind. The tokens' rows are split over dp.
inline abi::Manifest stateProgram(int64_t ranks, uint64_t arenaBytes) {
  abi::Manifest program;
  program.set_target("cuda:sm_90");
  program.set_strategy("ddp");
  abi::Axis &axis = *program.mutable_mesh()->add_axes();
  axis.set_name("dp");
  axis.set_size(ranks);
  abi::Training &training = *program.mutable_training();
  training.set_global_batch(64);
  training.set_accumulation(2);
  training.set_sequence_length(512);
  training.set_optimizer("adamw");
  training.set_compute("f32");
  training.set_steps(100'000);
  abi::Role &role = *program.add_roles();
  role.set_name("all");
  role.set_arena_bytes(arenaBytes);
  uint64_t address = 0;
  auto add = [&](abi::Tensor::Kind kind, int layer, const std::string &slot) {
    abi::Tensor &tensor = *role.add_tensors();
    tensor.set_kind(kind);
    tensor.set_parameter(layer);
    tensor.set_type(abi::F32);
    tensor.set_slot(slot);
    tensor.add_global_shape(LayerElements);
    tensor.add_local_shape(LayerElements);
    tensor.mutable_sharding()->add_dims();
    tensor.set_address(address);
    address += LayerElements * 4;
  };
  for (int layer = 0; layer < Layers; ++layer) {
    program.add_layers()->set_number(layer);
    abi::Parameter &parameter = *program.add_parameters();
    parameter.add_logical_shape(LayerElements);
    parameter.set_layer(static_cast<uint32_t>(layer));
    add(abi::Tensor::PARAMETER, layer, "");
    add(abi::Tensor::SLOT, layer, "exp_avg");
    add(abi::Tensor::SLOT, layer, "exp_avg_sq");
    add(abi::Tensor::GRADIENT, layer, "");
  }
  abi::Tensor &tokens = *role.add_tensors();
  tokens.set_kind(abi::Tensor::INPUT);
  tokens.set_type(abi::I32);
  tokens.mutable_source()->set_kind(abi::Source::TOKENS);
  *tokens.mutable_sharding()->add_dims()->add_axes() = axisRef("dp", ranks);
  tokens.mutable_sharding()->add_dims();
  tokens.set_address(address);
  return program;
}

/// Splits tensors of that kind over `parts` ranks of dp.
inline void split(abi::Manifest &program, abi::Tensor::Kind kind, int64_t parts) {
  for (abi::Tensor &tensor : *program.mutable_roles(0)->mutable_tensors())
    if (tensor.kind() == kind) {
      *tensor.mutable_sharding()->mutable_dims(0)->add_axes() = axisRef("dp", parts);
      tensor.set_local_shape(0, LayerElements / parts);
    }
}

/// `nodes` nodes of four GPUs with 1 GB each, which compute 1e12 operations a second.
inline std::string gpus(int nodes = 1, const std::string &deviceFields = "", const std::string &fields = "") {
  return R"(name: "boxes"
devices { name: "G" peaks { type: "f32" flops: 1e12 } memory_bytes: 1000000000 memory_bandwidth: 1e12 )" +
         deviceFields + " }\nnodes { count: " + std::to_string(nodes) + R"( device: "G" devices: 4 }
levels { name: "link" units: 4 latency: 1e-6 bandwidth: 1e9 }
levels { name: "network" units: )" +
         std::to_string(nodes) + " latency: 1e-6 bandwidth: 1e9 }\n" + fields;
}

/// A node of two cores, whose ranks share 1 GB.
inline std::string processors(const std::string &fields = "") {
  return R"(name: "cores"
devices { name: "P" threads: 1 peaks { type: "f32" flops: 1e12 } memory_bandwidth: 1e12 }
nodes { count: 1 device: "P" cores: 2 memory_bytes: 1000000000 }
levels { name: "memory" latency: 1e-6 bandwidth: 1e9 }
)" + fields;
}

/// A program on a cluster, with a step of so many seconds.
struct Case {
  Case(abi::Manifest program, const std::string &cluster, double stepSeconds)
      : program(std::move(program)), layout(timing::parseCluster(cluster, "c.textproto"), this->program.mesh()) {
    forecast.seconds = stepSeconds;
  }
  AdviceFacts facts() const { return {program, &layout, &forecast}; }

  abi::Manifest program;
  timing::Layout layout;
  timing::Forecast forecast;
};

/// What the lint of that name finds.
inline std::optional<Finding> look(std::span<const Lint> lints, std::string_view name, const AdviceFacts &facts) {
  for (const Lint &lint : lints)
    if (lint.name == name) {
      std::optional<Finding> finding = lint.look(facts);
      if (finding) {
        EXPECT_EQ(finding->name, name);
        EXPECT_FALSE(finding->remedy.empty());
      }
      return finding;
    }
  ADD_FAILURE() << "there is no lint '" << name << "'";
  return std::nullopt;
}

} // namespace dtc::advice_test
