// A small model on made-up GPUs, and candidates whose figures follow from their bounds.
#pragma once

#include "timing/plans/bounds.h"
#include "tools/dtc/plan/PlanSearch.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace dtc {

/// Four layers of four heads; eight samples of 32 tokens. 12 h^2 parameters a layer, as in a GPT.
inline plans::ModelFacts smallModel() {
  plans::ModelFacts model;
  model.name = "small";
  model.layers = model.heads = model.keyHeads = 4;
  model.hidden = 64;
  model.vocabulary = 1000;
  model.sequence = 32;
  model.batch = 8;
  model.layerParameters = 12 * 64 * 64;
  model.firstParameters = 1000 * 64;
  model.flopsPerToken = 6 * (4 * model.layerParameters + model.firstParameters);
  return model;
}

/// Nodes of four devices with this memory.
inline timing::Cluster gpus(int nodes, int64_t memory) {
  timing::Cluster cluster = timing::parseCluster(R"(name: "made up"
devices {
  name: "G" memory_bytes: 1000000000 memory_bandwidth: 1e12 launch_seconds: 1e-6
  peaks { type: "f32" flops: 1e12 }
}
nodes { count: 1 device: "G" devices: 4 }
levels { name: "within" units: 4 latency: 1e-6 bandwidth: 1e11 }
levels { name: "between" latency: 5e-6 bandwidth: 1e10 })",
                                                 "made-up.textproto");
  cluster.mutable_nodes(0)->set_count(static_cast<uint32_t>(nodes));
  cluster.mutable_devices(0)->set_memory_bytes(static_cast<uint64_t>(memory)); // less than a file may say
  return cluster;
}

inline plans::Problem problemOn(timing::Cluster cluster, int64_t devices) {
  plans::Problem problem;
  problem.model = smallModel();
  problem.cluster = std::move(cluster);
  problem.devices = devices;
  return problem;
}

/// A step takes twice its bound, and a tenth of what its text's length says in percent: so that steps differ. A rank
/// needs a quarter more than its bound.
inline plans::Evaluated figuresOf(const plans::Problem &problem, const plans::Candidate &candidate) {
  plans::Least least = plans::leastOf(plans::BoundContext(problem), candidate);
  plans::Evaluated its;
  its.candidate = candidate;
  its.seconds = least.seconds * (2 + static_cast<double>(candidate.text().size()) / 1000);
  its.bytes = 1.25 * least.bytes;
  its.lack = std::max(0.0, its.bytes - plans::roomOf(problem));
  its.compute = its.seconds;
  return its;
}

/// Counts what it is asked for.
struct CountingEvaluator {
  int64_t evaluated = 0;

  EvaluateOn function() {
    return [this](const plans::Problem &problem, std::span<const plans::Candidate> candidates) {
      std::vector<plans::Evaluated> all;
      for (const plans::Candidate &candidate : candidates)
        all.push_back(figuresOf(problem, candidate));
      evaluated += static_cast<int64_t>(all.size());
      return all;
    };
  }
};

inline std::vector<plans::Evaluated> allFigures(const plans::Problem &problem,
                                                const std::vector<plans::Constraint> &constraints = {}) {
  std::vector<plans::Evaluated> all;
  plans::forEachCandidate(problem, constraints,
                          [&](const plans::Candidate &candidate) { all.push_back(figuresOf(problem, candidate)); });
  return all;
}

} // namespace dtc
