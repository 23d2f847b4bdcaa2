// Small clusters and problems, and what is possible for them.
#pragma once

#include "timing/plans/dimensions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace dtc::plans {

/// A link of a level that joins so many units.
inline std::string levelText(int64_t units) {
  return fmt::format("levels {{ name: \"links\" units: {} latency: 2e-6 bandwidth: 300e9 }}\n", units);
}

/// A kind of GPU, of 80 GB unless something else is said.
inline std::string gpuText(const std::string &name, int64_t gigabytes = 80) {
  return fmt::format("devices {{ name: \"{}\" peaks {{ type: \"f32\" flops: 20e12 }} memory_bytes: {} "
                     "memory_bandwidth: 2e12 launch_seconds: 3e-6 }}\n",
                     name, gigabytes * 1000000000);
}

/// What each level joins, the first of them a node: {4, 2}: two nodes of four. `more`: further lines.
inline timing::Cluster gpus(const std::vector<int64_t> &units, const std::string &more = "") {
  int64_t nodes = 1;
  for (size_t level = 1; level < units.size(); ++level)
    nodes *= units[level];
  std::string text = "name: \"gpus\"\n" + gpuText("G");
  text += fmt::format("nodes {{ count: {} device: \"G\" devices: {} }}\n", nodes, units.front());
  for (int64_t each : units)
    text += levelText(each);
  return timing::parseCluster(text + more, "gpus.textproto");
}

/// Nodes of eight cores and 16 GB. All ranks are joined by one level of links, so that these do not tell nodes apart.
inline timing::Cluster processors(int64_t nodes) {
  return timing::parseCluster(
      fmt::format("name: \"hosts\"\n"
                  "devices {{ name: \"P\" threads: 1 peaks {{ type: \"f32\" flops: 1e11 }} memory_bandwidth: 1e10 }}\n"
                  "nodes {{ count: {} device: \"P\" cores: 8 memory_bytes: 16000000000 }}\n"
                  "levels {{ name: \"links\" latency: 1e-6 bandwidth: 1e10 }}\n",
                  nodes),
      "hosts.textproto");
}

/// Four layers with four heads, and a step of four samples of eight tokens.
inline Problem problemOf(const timing::Cluster &cluster, int64_t devices) {
  Problem problem;
  problem.model.name = "small";
  problem.model.layers = 4;
  problem.model.heads = problem.model.keyHeads = 4;
  problem.model.hidden = 16;
  problem.model.vocabulary = 64;
  problem.model.sequence = 8;
  problem.model.batch = 4;
  problem.cluster = cluster;
  problem.devices = devices;
  return problem;
}

/// "tp=2" fixes; "!zero3" forbids.
inline std::vector<Constraint> constraintsOf(const std::vector<std::string> &texts) {
  std::vector<Constraint> constraints;
  for (const std::string &text : texts)
    constraints.push_back(text.starts_with("!") ? parseConstraint(text.substr(1), false) : parseConstraint(text, true));
  return constraints;
}

inline std::vector<Candidate> candidatesOf(const Problem &problem, const std::vector<std::string> &constraints = {}) {
  std::vector<Candidate> candidates;
  forEachCandidate(problem, constraintsOf(constraints), [&](const Candidate &each) { candidates.push_back(each); });
  return candidates;
}

inline const Dimension &dimensionOf(std::string_view name) {
  for (const Dimension &dimension : dimensions())
    if (dimension.name == name)
      return dimension;
  throw std::runtime_error("there is no dimension " + std::string(name));
}

/// A candidate with this mesh, all else as it is before it has been decided.
inline Candidate meshed(const std::vector<MeshAxis> &mesh) {
  Candidate candidate;
  candidate.mesh = mesh;
  return candidate;
}

inline std::vector<std::string> valuesOf(std::string_view dimension, const Problem &problem,
                                         const Candidate &decided = {}) {
  return dimensionOf(dimension).values(problem, decided);
}

} // namespace dtc::plans
