#include "runtime/abi/element_type.h"
#include "runtime/abi/marks.h"
#include "timing/cost/cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace dtc::timing {

/// The efficiency for the class: the type's own before the one for all types; null where there is none.
static const Efficiency *findEfficiency(const Device &device, const KernelWork &work) {
  const Efficiency *ofAll = nullptr;
  for (const Efficiency &efficiency : device.efficiencies()) {
    if (efficiency.kernel_class() != abi::nameOf(work.kind))
      continue;
    if (efficiency.type() == abi::nameOf(work.type))
      return &efficiency;
    if (efficiency.type().empty())
      ofAll = &efficiency;
  }
  return ofAll;
}

/// Between sizes that were measured: the mean of the logarithms of the nearest ones' shares, each weighted by the
/// inverse square of its distance (Shepard 1968) in the plane of log bytes and log intensity (flops per byte). Shares
/// change by factors over sizes that change by factors; kernels that differ in intensity do different things, so an
/// octave of intensity counts as several octaves of size.
static double shareAt(const Efficiency &efficiency, double flops, double bytes) {
  constexpr size_t Nearest = 4;
  constexpr double Apart = 4;
  auto logOf = [](double amount) { return std::log2(std::max(amount, 1.0)); };
  struct Neighbour {
    double distance; ///< squared
    double logShare;
    bool operator<(const Neighbour &other) const { return distance < other.distance; }
  };
  std::vector<Neighbour> neighbours;
  for (const Point &point : efficiency.points()) {
    double along = logOf(point.bytes()) - logOf(bytes), across = Apart * (logOf(point.flops()) - logOf(flops) - along);
    neighbours.push_back({along * along + across * across, std::log(point.share())});
  }
  size_t count = std::min(Nearest, neighbours.size());
  std::partial_sort(neighbours.begin(), neighbours.begin() + static_cast<ptrdiff_t>(count), neighbours.end());
  double sum = 0, weights = 0;
  for (size_t i = 0; i < count; ++i) {
    if (neighbours[i].distance == 0)
      return std::exp(neighbours[i].logShare);
    sum += neighbours[i].logShare / neighbours[i].distance;
    weights += 1 / neighbours[i].distance;
  }
  return std::exp(sum / weights);
}

double peakFlops(const Device &device, abi::DataType type) {
  const Peak *found = nullptr;
  for (const Peak &peak : device.peaks()) {
    if (peak.type() == abi::nameOf(type))
      return peak.flops();
    bool isWide = peak.type() == abi::nameOf(abi::F32);
    if (!found || isWide || (found->type() != abi::nameOf(abi::F32) && peak.flops() < found->flops()))
      found = &peak;
  }
  return found->flops();
}

double hostCopySeconds(const Device &device, double bytes) {
  constexpr double usualBandwidth = 25e9; // 16 lanes of PCIe 4.0
  return device.launch_seconds() + bytes / (device.host_bandwidth() > 0 ? device.host_bandwidth() : usualBandwidth);
}

double kernelSeconds(const Device &device, const KernelWork &work) {
  double bound = std::max(work.flops / peakFlops(device, work.type), work.bytes / device.memory_bandwidth());
  const Efficiency *efficiency = findEfficiency(device, work);
  double share = efficiency ? shareAt(*efficiency, work.flops, work.bytes) : 1;
  return device.launch_seconds() + bound / share;
}

} // namespace dtc::timing
