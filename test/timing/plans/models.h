// A model and clusters whose figures are easy to follow by hand.
#pragma once

#include "timing/plans/bounds.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <string>
#include <vector>

namespace dtc::plans {

/// Nodes of GPUs with 1 TFLOP/s in f32 and 4 in bf16, of which products reach a half, and 1 TB/s. Links within a node
/// have 100 GB/s and a microsecond, those between nodes 10 GB/s and 10 microseconds.
inline std::string roundGpus(int64_t nodes, int64_t devices, const std::string &more = "") {
  std::string text = R"(
name: "round"
devices {
  name: "G" peaks { type: "f32" flops: 1e12 } peaks { type: "bf16" flops: 4e12 }
  memory_bytes: 1000000000 memory_bandwidth: 1e12
  efficiencies { kernel_class: "product" points { share: 0.5 } }
  efficiencies { kernel_class: "attention" points { share: 0.4 } }
  efficiencies { kernel_class: "elementwise" points { share: 0.8 } }
}
)";
  text += fmt::format("nodes {{ count: {} device: \"G\" devices: {} }}\n", nodes, devices);
  text += fmt::format("levels {{ name: \"inner\" units: {} latency: 1e-6 bandwidth: 100e9 }}\n", devices);
  if (nodes > 1)
    text += fmt::format("levels {{ name: \"outer\" units: {} latency: 10e-6 bandwidth: 10e9 }}\n", nodes);
  return text + more;
}

/// Sixteen layers of 12 h² + 13 h elements as GPT-2's, h = 64, with a tied head of 1000 rows: 512 tokens a step.
inline ModelFacts smallModel() {
  ModelFacts model;
  model.name = "small";
  model.layers = 16;
  model.heads = model.keyHeads = 4;
  model.hidden = 64;
  model.vocabulary = 1000;
  model.sequence = 32;
  model.batch = 16;
  model.layerParameters = 12 * 64 * 64 + 13 * 64;
  model.firstParameters = 1000 * 64 + 32 * 64;
  model.lastParameters = 2 * 64;
  model.flopsPerToken = 6.0 * (16 * 12 * 64 * 64 + 1000 * 64) + 16 * 12 * 32 * 64;
  model.compute = abi::BF16;
  return model;
}

inline Problem problemOn(const std::string &cluster, int64_t devices) {
  Problem problem;
  problem.model = smallModel();
  problem.cluster = timing::parseCluster(cluster, "round.textproto");
  problem.devices = devices;
  return problem;
}

inline Candidate candidateOf(std::vector<MeshAxis> mesh, const std::string &state = "ddp", int64_t microBatches = 1) {
  Candidate candidate;
  candidate.mesh = std::move(mesh);
  candidate.state = state;
  candidate.microBatches = microBatches;
  return candidate;
}

inline double boundOf(std::string_view name, const Problem &problem, const Candidate &candidate) {
  for (const Bound &bound : bounds())
    if (bound.name == name)
      return bound.value(BoundInputs(BoundContext(problem), candidate));
  ADD_FAILURE() << "there is no bound '" << name << "'";
  return 0;
}

} // namespace dtc::plans
