// How long a command takes, in seconds.
//
// A kernel takes the device's launch time and the longer of flops / peak and bytes / bandwidth, divided by the share of
// that rate that kernels of its class and size reach (Williams et al., "Roofline", 2009). A collective takes as long as
// its transport does or, for a library, the best algorithm for its size and levels; see collectives.h.
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

/// The peak of products of that type. A type that has none gets f32's, in which it is computed, or else the lowest of
/// all.
double peakFlops(const Device &device, abi::DataType type);

/// On a device that a rank has to itself.
double kernelSeconds(const Device &device, const KernelWork &work);

/// On a GPU: a copy of this many bytes to the host's memory or back, on a channel of its own.
double hostCopySeconds(const Device &device, double bytes);

struct CollectiveCost {
  double seconds = 0;
  double latency = 0;          ///< of these seconds, what does not depend on the bytes
  std::string_view algorithm;  ///< "ring"; "measured" where the cluster file has figures for it
  int level = -1;              ///< the one that takes longest
  double processorSeconds = 0; ///< of these seconds, how long a device's compute stalls
};

/// `cluster`: a layout's, as its ranks find it; `payload`: bytes as abi::payloadBytes counts them, 0 or more, of
/// elements of `type`. All devices of a node do the same at the same time, each in its group, and share its links. A
/// single member takes no time.
CollectiveCost collectiveCost(const Cluster &cluster, abi::Collective::Kind kind, double payload, const Span &span,
                              abi::DataType type = abi::F32);

/// A message from one rank to another, over a link of that level, while the other devices that share it send the same
/// amount.
CollectiveCost transferCost(const Cluster &cluster, int level, double bytes);

} // namespace dtc::timing
