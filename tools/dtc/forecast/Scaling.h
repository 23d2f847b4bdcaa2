// How a step scales with the number of devices: strong scaling (Amdahl 1967), where all sizes share one global batch,
// and weak scaling (Gustafson 1988), where the batch grows with the devices. The mesh axis dp grows; the other axes and
// all other settings stay.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/cluster/cluster.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

struct ScaleRequest {
  std::string mesh;           ///< as --mesh takes it; the size of its axis dp, if it has one, is ignored
  std::vector<int64_t> sizes; ///< numbers of devices, ascending, each once
  /// The model's program for a mesh and a global batch; 0: the batch of the settings. Throws Error with the reason.
  std::function<abi::Manifest(const std::string &mesh, int64_t batch)> compile;
};

/// A step on some number of devices.
struct ScaledStep {
  int64_t devices = 0;
  int64_t batch = 0;   ///< samples of a step
  int64_t threads = 0; ///< of a processor's rank: ranks of one node share its cores; 0: a GPU
  std::string mesh;
  std::string problem;            ///< why it cannot be simulated; empty: it was
  double seconds = 0, tokens = 0; ///< of a step
  double communication = 0;       ///< share of the step: exposed, or slowing kernels down
  double needs = 0, has = 1;      ///< bytes of the memory with the largest shortage; less than it has: all fit

  bool isKnown() const { return problem.empty(); }
  bool fits() const { return needs <= has; }
  double tokensPerSecond() const { return tokens / seconds; }
};

/// Steps of a fixed batch, or of a growing one.
struct ScaledSteps {
  bool isWeak = false;
  ScaledStep base; ///< what the others are compared with: one device, or the smallest size that is known
  std::vector<ScaledStep> sizes;

  double growth(const ScaledStep &step) const;     ///< devices per device of the base
  double speedup(const ScaledStep &step) const;    ///< in tokens a second, relative to the base
  double efficiency(const ScaledStep &step) const; ///< speed-up divided by the growth
  /// By Amdahl's law, or Gustafson's: for the sizes that are whole multiples of the base; nothing without any.
  std::optional<double> serialShare() const;
};

struct Scaling {
  std::string model, cluster;
  double parameters = 0;
  ScaledSteps strong, weak;

  /// For compute-optimal training: 20 tokens a parameter, and 6 operations for each parameter and token.
  double targetTokens() const;
  double targetFlops() const;
  double targetSeconds(const ScaledStep &step) const { return targetTokens() / step.tokensPerSecond(); }
};

/// The mesh of this many devices: "dp=8,tp=8" of "tp=8" for 64. Throws Error (BadInput) where the other axes do not
/// divide them.
std::string meshFor(const std::string &mesh, int64_t devices);

/// Continues past sizes that are impossible. Throws Error (BadInput) where all are.
Scaling scale(const timing::Cluster &cluster, const ScaleRequest &request);

/// Two tables, a plot, and conclusions.
void printScaling(const Scaling &scaling);
nlohmann::ordered_json toJson(const Scaling &scaling);

} // namespace dtc
