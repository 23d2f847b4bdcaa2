// What a command takes, in seconds.
//
// A kernel takes the device's launch time and the longer of flops / peak and bytes / bandwidth, divided by the share of
// it that kernels of its class and size reach (Williams et al., "Roofline", 2009). A collective takes what its
// transport or, of a library, the best algorithm for its size and levels takes; see collectives.h.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/cluster/cluster.h"

#include <cstdint>
#include <string_view>

namespace dtc::timing {

struct KernelWork {
  abi::Work::Class kind = abi::Work::ELEMENTWISE;
  abi::DataType type = abi::F32; ///< of the operands
  double flops = 0, bytes = 0;   ///< read and written
};

/// Of products of that type; of a type that has no peak that of f32, in which it is computed, or the least of all.
double peakFlops(const Device &device, abi::DataType type);

/// Of a device that a rank has for itself.
double kernelSeconds(const Device &device, const KernelWork &work);

/// Of a GPU: a copy of so many bytes to the host's memory or back, on a channel of its own.
double hostCopySeconds(const Device &device, double bytes);

struct CollectiveCost {
  double seconds = 0;
  double latency = 0;          ///< of these, what does not depend on the bytes
  std::string_view algorithm;  ///< "ring"; "measured" where the cluster file has figures of it
  int level = -1;              ///< the one that takes longest
  double processorSeconds = 0; ///< of these, what a device's compute stands still
};

/// `cluster`: a layout's, as its ranks find it; `payload`: bytes as abi::payloadBytes has them, 0 or more, of elements
/// of `type`. All devices of a node do the same at the same time, each in its group, and share its links. Nothing of a
/// single member.
CollectiveCost collectiveCost(const Cluster &cluster, abi::Collective::Kind kind, double payload, const Span &span,
                              abi::DataType type = abi::F32);

/// A message from one rank to another, over a link of that level, while other devices that share it send as much.
CollectiveCost transferCost(const Cluster &cluster, int level, double bytes);

} // namespace dtc::timing
