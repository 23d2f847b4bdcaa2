#include "timing/cost/fit.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/marks.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <tuple>
#include <vector>

namespace dtc::timing {

double toFourDigits(double figure) {
  if (figure == 0)
    return 0;
  double unit = std::pow(10, std::floor(std::log10(std::abs(figure))) - 3);
  return std::stod(fmt::format("{:.3e}", std::round(figure / unit) * unit));
}

/// The value below which `share` of all values lie.
static double quantile(std::vector<double> values, double share) {
  auto at = values.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

double uncertaintyOfMedian(std::vector<double> values) {
  std::ranges::sort(values);
  size_t quarter = values.size() / 4;
  double middleHalf = values[values.size() - 1 - quarter] - values[quarter];
  return 1.57 * middleHalf / std::sqrt(static_cast<double>(values.size()));
}

TracingCost fitTracing(std::span<const TracedRun> runs) {
  double all = 0, n = 0, nn = 0, y = 0, ny = 0; // weighted sums
  for (const TracedRun &run : runs) {
    double weight = 1 / (run.untraced * run.untraced), longer = run.kernels - run.untraced;
    all += weight;
    n += weight * run.launches;
    nn += weight * run.launches * run.launches;
    y += weight * longer;
    ny += weight * run.launches * longer;
  }
  double determinant = all * nn - n * n;
  TracingCost cost;
  if (determinant > 1e-9 * all * nn)
    cost = {(all * ny - n * y) / determinant, (n * ny - nn * y) / determinant};
  if (cost.step <= 0 && nn > 0)
    cost = {ny / nn, 0};
  return {std::max(cost.launch, 0.0), cost.step};
}

/// The shortest kernels have hardly any work. A single one may be a clock error.
static double launchSeconds(std::span<const Observation> observations) {
  constexpr double Few = 0.02;
  std::vector<double> seconds;
  for (const Observation &each : observations)
    seconds.push_back(each.seconds);
  return quantile(std::move(seconds), Few);
}

static void fitPeaks(std::span<const Observation> observations, Device &device) {
  constexpr double Best = 0.95;
  std::map<abi::DataType, std::vector<double>> rates;
  for (const Observation &each : observations)
    if (each.work.kind == abi::Work::PRODUCT && each.seconds > device.launch_seconds())
      rates[each.work.type].push_back(each.work.flops / (each.seconds - device.launch_seconds()));
  device.clear_peaks();
  for (auto &[type, ofType] : rates) {
    Peak &peak = *device.add_peaks();
    peak.set_type(std::string(abi::elementType(type).name));
    peak.set_flops(toFourDigits(quantile(std::move(ofType), Best)));
  }
}

static double memoryBandwidth(std::span<const Observation> observations, double launch, bool isGpu) {
  constexpr double Best = 0.95;
  const double large = isGpu ? 256e6 : 16e6;
  double most = 0;
  for (const Observation &each : observations)
    most = std::max(most, each.work.bytes);
  std::vector<double> rates;
  for (const Observation &each : observations)
    if (each.work.bytes >= std::min(large, most / 2) && each.seconds > launch)
      rates.push_back(each.work.bytes / (each.seconds - launch));
  return quantile(std::move(rates), Best);
}

/// Sizes close to each other count as one: quarters of an octave.
static std::pair<int64_t, int64_t> cellOf(const KernelWork &work) {
  auto cell = [](double amount) { return std::llround(4 * std::log2(std::max(amount, 1.0))); };
  return {cell(work.flops), cell(work.bytes)};
}

/// No kernel is outside these bounds, unless the clock was stopped.
static constexpr double LeastShare = 1e-5, MostShare = 100;

/// Adds the point of kernels of one class, type and size. A kernel that takes hardly longer than a launch says nothing
/// about a rate: its share would be next to nothing, and would stand for all larger sizes where none were measured.
static void addPoint(const std::vector<const Observation *> &all, const Device &bare, double launch,
                     Efficiency &efficiency) {
  constexpr double Least = 0.5;
  std::vector<double> seconds, shares, flops, bytes;
  for (const Observation *each : all) {
    seconds.push_back(std::max(each->seconds - launch, launch / 10));
    shares.push_back(std::clamp(kernelSeconds(bare, each->work) / seconds.back(), LeastShare, MostShare));
    flops.push_back(each->work.flops);
    bytes.push_back(each->work.bytes);
  }
  if (median(std::move(seconds)) < Least * launch)
    return;
  Point &point = *efficiency.add_points();
  point.set_flops(median(std::move(flops)));
  point.set_bytes(median(std::move(bytes)));
  point.set_share(toFourDigits(median(std::move(shares))));
}

void fitDevice(std::span<const Observation> observations, Device &device) {
  if (observations.empty())
    return;
  device.set_launch_seconds(toFourDigits(launchSeconds(observations)));
  fitPeaks(observations, device);
  device.set_memory_bandwidth(
      toFourDigits(memoryBandwidth(observations, device.launch_seconds(), device.threads() == 0)));
  device.clear_efficiencies();
  // The roofline of the device as fitted up to here, as if kernels reached all of it.
  Device bare = device;
  bare.set_launch_seconds(0);
  using Key = std::tuple<abi::Work::Class, abi::DataType>;
  std::map<Key, std::map<std::pair<int64_t, int64_t>, std::vector<const Observation *>>> cells;
  for (const Observation &each : observations)
    cells[{each.work.kind, each.work.type}][cellOf(each.work)].push_back(&each);
  for (const auto &[key, ofClass] : cells) {
    Efficiency efficiency;
    efficiency.set_kernel_class(std::string(abi::nameOf(std::get<0>(key))));
    efficiency.set_type(std::string(abi::elementType(std::get<1>(key)).name));
    for (const auto &[cell, all] : ofClass)
      addPoint(all, bare, device.launch_seconds(), efficiency);
    if (!efficiency.points().empty())
      *device.add_efficiencies() = std::move(efficiency);
  }
}

} // namespace dtc::timing
