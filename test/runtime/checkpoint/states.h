// A small state in several layouts, and ranks that hold it.
#pragma once

#include "runtime/checkpoint/state.h"
#include "runtime/comm/local/in_process.h"
#include "runtime/support/error.h"
#include "test/runtime/device/far_device.h"
#include "test/runtime/program/manifests.h"

#include <functional>
#include <gmock/gmock.h>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace dtc::test {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// How one parameter is stored: axes that split each logical dimension ("" for none).
struct Layout {
  int64_t dp, tp;
  std::vector<std::string> weightAxes; ///< of "attn.weight", logical [3, 2, 5, 4]
  std::string biasAxis;                ///< of "norm.bias", logical [7]

  int ranks() const { return static_cast<int>(dp * tp); }
  int64_t size(const std::string &axis) const { return axis == "dp" ? dp : axis == "tp" ? tp : 1; }
};

inline const Layout Alone{1, 1, {"", "", "", ""}, ""};
inline const Layout Megatron{1, 2, {"", "tp", "", ""}, ""};
inline const Layout Padded{2, 3, {"", "", "tp", "dp"}, "tp"}; // 5 over 3, 4 over 2, 7 over 3
inline const Layout Replicated{3, 1, {"", "", "", ""}, ""};

/// File [4, 30] factored [4, 3, 2, 5], logical order (3, 2, 5, 4); each has one moment.
inline abi::Manifest manifestOf(const Layout &layout) {
  abi::Manifest manifest;
  manifest.set_model_config_json("{\"model_type\": \"test\"}\n");
  manifest.mutable_training()->set_sequence_length(16);
  for (auto [name, size] : {std::pair("dp", layout.dp), std::pair("tp", layout.tp)}) {
    abi::Axis &axis = *manifest.mutable_mesh()->add_axes();
    axis.set_name(name);
    axis.set_size(size);
  }
  auto addParameter = [&](const char *name, std::vector<int64_t> file, std::vector<int64_t> factored,
                          std::vector<int64_t> permutation) {
    abi::Parameter &parameter = *manifest.add_parameters();
    parameter.set_name(name);
    parameter.mutable_file_shape()->Add(file.begin(), file.end());
    parameter.mutable_factored_shape()->Add(factored.begin(), factored.end());
    for (int64_t dim : permutation) {
      parameter.add_permutation(dim);
      parameter.add_logical_shape(factored[dim]);
    }
    parameter.mutable_init()->set_kind(abi::Init::NORMAL);
    parameter.mutable_init()->set_stddev(0.5);
  };
  addParameter("attn.weight", {4, 30}, {4, 3, 2, 5}, {1, 2, 3, 0});
  addParameter("norm.bias", {7}, {7}, {0});
  uint64_t offset = 0;
  manifest.add_roles();
  for (int parameter : {0, 1})
    for (abi::Tensor::Kind kind : {abi::Tensor::PARAMETER, abi::Tensor::SLOT}) {
      abi::Tensor &tensor = *manifest.mutable_roles(0)->add_tensors();
      tensor.set_name("tensor" + std::to_string(offset));
      tensor.set_kind(kind);
      if (kind == abi::Tensor::SLOT)
        tensor.set_slot("exp_avg");
      tensor.set_parameter(parameter);
      tensor.set_address(offset);
      int64_t elements = 1;
      for (int dim = 0; dim < manifest.parameters(parameter).logical_shape_size(); ++dim) {
        std::string axis = parameter == 0 ? layout.weightAxes[dim] : layout.biasAxis;
        int64_t global = manifest.parameters(parameter).logical_shape(dim), parts = layout.size(axis);
        tensor.add_global_shape(global);
        tensor.add_local_shape((global + parts - 1) / parts);
        elements *= tensor.local_shape(dim);
        abi::DimSharding &sharding = *tensor.mutable_sharding()->add_dims();
        if (!axis.empty()) {
          abi::AxisRef &ref = *sharding.add_axes();
          ref.set_axis(axis);
          ref.set_pre(1);
          ref.set_size(parts);
        }
      }
      offset += elements * 4;
    }
  setArena(*manifest.mutable_roles(0), offset);
  return manifest;
}

/// Runs `body` as every rank of the layout; returns the first message of an exception, by rank.
using Body = std::function<void(RankState &, Communicator &)>;
inline std::vector<std::string> asRanks(const abi::Manifest &manifest, int ranks, const Body &body) {
  InProcessJob job(ranks);
  std::vector<std::string> problems(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      FarDevice device([](const abi::Kernel &) { return nullptr; });
      std::unique_ptr<Memory> memory = device.allocate(manifest.roles(0).arena_bytes(), 0);
      // Padding differs between ranks.
      device.write(memory->base(), std::vector<std::byte>(memory->bytes(), static_cast<std::byte>(rank + 1)));
      std::unique_ptr<Communicator> communicator = job.join(rank, static_cast<FarMemory &>(*memory).behind());
      RankState state(manifest, rank, device, *memory);
      try {
        body(state, *communicator);
      } catch (const Error &error) {
        problems[rank] = "exit code " + std::to_string(int(error.exitCode())) + ": " + error.what();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  return problems;
}
inline std::vector<std::string> asRanks(const Layout &layout, const Body &body) {
  return asRanks(manifestOf(layout), layout.ranks(), body);
}

/// A value that identifies tensor and logical element.
inline float valueOf(const StateTensor &tensor, int64_t logical) {
  return static_cast<float>(10000 * tensor.tensor->parameter() + 1000 * tensor.tensor->kind() + logical);
}

inline void fill(const RankState &state) {
  for (const auto *tensors : {&state.parameters(), &state.moments()})
    for (const StateTensor &tensor : *tensors)
      state.write(tensor, [&](const FileRun &run, std::span<float> values) {
        for (int64_t i = 0; i < run.count; ++i)
          values[i] = valueOf(tensor, run.logical + i);
      });
}

inline int64_t countWrong(const RankState &state) {
  int64_t wrong = 0;
  for (const auto *tensors : {&state.parameters(), &state.moments()})
    for (const StateTensor &tensor : *tensors)
      state.read(tensor, [&](const FileRun &run, std::span<const float> values) {
        for (int64_t i = 0; i < run.count; ++i)
          wrong += values[i] != valueOf(tensor, run.logical + i);
      });
  return wrong;
}

} // namespace dtc::test
