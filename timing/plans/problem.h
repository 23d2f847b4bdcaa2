// What a plan is for: a model, a cluster, and what is given and never changed.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/cluster/cluster.h"

#include <cstdint>
#include <string>

namespace dtc::plans {

/// What of a model and its settings bounds every plan of it. Sizes that a model does not have are 0.
struct ModelFacts {
  std::string name;
  int64_t layers = 0, heads = 0, keyHeads = 0, hidden = 0, vocabulary = 0;
  int64_t sequence = 0;         ///< tokens of a sample
  int64_t batch = 0;            ///< samples of a step, over all ranks and micro-batches
  double layerParameters = 0;   ///< elements of one layer, the mean over the layers
  double firstParameters = 0;   ///< elements before the first layer: embeddings
  double lastParameters = 0;    ///< elements behind the last layer: a head of its own, a last norm
  double flopsPerToken = 0;     ///< of forward and backward pass, as countModelFlops counts them
  abi::DataType compute = abi::F32, gradients = abi::F32;
  double slotBytes = 8;         ///< of the optimizer's state, for a parameter; parameters are f32

  double parameters() const { return static_cast<double>(layers) * layerParameters + firstParameters + lastParameters; }
  double tokens() const { return static_cast<double>(batch) * static_cast<double>(sequence); }
  double flops() const { return flopsPerToken * tokens(); }
};

struct Problem {
  ModelFacts model;
  timing::Cluster cluster;
  int64_t devices = 1;     ///< that a plan uses, all of them
  uint64_t memoryLimit = 0; ///< bytes of a rank's arena; 0: as much as its device has
  double margin = 0;       ///< share of a device's memory that stays free
  bool allowsAsynchronous = false; ///< PipeDream
};

/// Bytes that a rank may take on the device with the least memory among the first `devices`; a processor's node is
/// shared by its ranks. 0: the cluster does not say, and there is no limit.
double roomOf(const Problem &problem);

} // namespace dtc::plans
