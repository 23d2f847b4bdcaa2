#include "timing/cost/fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace dtc::timing {
namespace {

/// The costs of a machine, which the fit does not know: 100 GFLOP/s, 20 GB/s, 2 us a launch; short products reach less.
double truth(const KernelWork &work) {
  double bound = std::max(work.flops / 100e9, work.bytes / 20e9);
  double share = work.kind == abi::Work::PRODUCT ? work.flops / (work.flops + 1e6) : 0.8;
  return 2e-6 + bound / share;
}

/// Products of all sizes, and elementwise kernels that read and write as many bytes.
KernelWork randomWork(std::mt19937 &random) {
  std::uniform_real_distribution<double> octaves(0, 18);
  double n = 1024 * std::exp2(octaves(random));
  if (random() % 2 == 0)
    return {abi::Work::ELEMENTWISE, abi::F32, n, 8 * n};
  return {abi::Work::PRODUCT, abi::F32, 16 * n * std::sqrt(n), 12 * n};
}

TEST(UncertaintyOfMedian, TellsWhetherTwoMediansDiffer) {
  EXPECT_EQ(uncertaintyOfMedian({3}), 0);
  EXPECT_DOUBLE_EQ(uncertaintyOfMedian({5, 1, 3, 2}), 1.57 * (3 - 2) / 2);
  std::mt19937 random(5);
  auto foundToDiffer = [&](double by) { // of 1000 pairs of 18 steps each, one of them `by` standard deviations longer
    int found = 0;
    for (int pair = 0; pair < 1000; ++pair) {
      std::vector<double> one(18), other(18);
      for (size_t i = 0; i < one.size(); ++i) {
        one[i] = std::normal_distribution<>(10, 1)(random);
        other[i] = std::normal_distribution<>(10 + by, 1)(random);
      }
      found += std::abs(median(one) - median(other)) > uncertaintyOfMedian(one) + uncertaintyOfMedian(other);
    }
    return found;
  };
  EXPECT_LE(foundToDiffer(0), 60);
  EXPECT_GE(foundToDiffer(2), 900);
}

TEST(FitDevice, ForetellsWhatItHasNotSeen) {
  std::mt19937 random(3);
  std::vector<Observation> observations;
  for (int i = 0; i < 600; ++i) {
    KernelWork work = randomWork(random);
    double noise = 1 + 0.02 * (static_cast<double>(random() % 200) / 100 - 1);
    observations.push_back({work, truth(work) * noise});
  }
  Device device;
  fitDevice(observations, device);
  EXPECT_NEAR(device.memory_bandwidth(), 16e9, 0.5e9) << "as fast as the best kernels are";
  EXPECT_NEAR(device.peaks(0).flops(), 100e9, 5e9);
  EXPECT_NEAR(device.launch_seconds(), 2.5e-6, 0.5e-6);
  double sum = 0, worst = 0;
  constexpr int Trials = 400;
  for (int i = 0; i < Trials; ++i) {
    KernelWork work = randomWork(random);
    double error = std::abs(kernelSeconds(device, work) / truth(work) - 1);
    sum += error;
    worst = std::max(worst, error);
  }
  EXPECT_LE(sum / Trials, 0.04);
  EXPECT_LE(worst, 0.3);
}

TEST(FitDevice, EachClassAndTypeHasItsOwnShares) {
  std::vector<Observation> observations;
  for (int i = 0; i < 20; ++i) {
    observations.push_back({{abi::Work::PRODUCT, abi::F32, 1e9, 1e6}, 0.01});
    observations.push_back({{abi::Work::PRODUCT, abi::BF16, 1e9, 1e6}, 0.002});
    observations.push_back({{abi::Work::REDUCTION, abi::F32, 1e6, 32e6}, 0.004});
    observations.push_back({{abi::Work::ELEMENTWISE, abi::F32, 1, 8}, 1e-6});
  }
  Device device;
  fitDevice(observations, device);
  EXPECT_NEAR(kernelSeconds(device, observations[0].work), 0.01, 1e-5);
  EXPECT_NEAR(kernelSeconds(device, observations[1].work), 0.002, 1e-5);
  EXPECT_NEAR(kernelSeconds(device, observations[2].work), 0.004, 1e-5);
  EXPECT_EQ(device.peaks_size(), 2);
}

/// For a class whose kernels are all short, the only prediction is that larger ones move their bytes.
TEST(FitDevice, ShortKernelsTellNoRate) {
  std::vector<Observation> observations;
  for (int i = 0; i < 20; ++i) {
    observations.push_back({{abi::Work::PRODUCT, abi::F32, 1e10, 1e8}, 0.001});
    observations.push_back({{abi::Work::ELEMENTWISE, abi::F32, 1e8, 1e9}, 0.001});
    observations.push_back({{abi::Work::ELEMENTWISE, abi::F32, 1, 8}, 2e-6});
    observations.push_back({{abi::Work::MOVEMENT, abi::F32, 0, 8}, 2.1e-6});
  }
  Device device;
  fitDevice(observations, device);
  EXPECT_NEAR(kernelSeconds(device, {abi::Work::MOVEMENT, abi::F32, 0, 1e9}), 0.001, 1e-5);
  EXPECT_NEAR(kernelSeconds(device, {abi::Work::MOVEMENT, abi::F32, 0, 8}), 2e-6, 2e-7);
}

TEST(FitTracing, TellsLaunchesFromSteps) {
  std::vector<TracedRun> runs;
  for (auto [launches, seconds] : {std::pair(100, 0.001), {110, 0.001}, {600, 0.004}, {500, 0.004}})
    runs.push_back({static_cast<double>(launches), seconds + 3e-6 * launches, seconds + 80e-6});
  runs.push_back({70, 0.1 * 1.005, 0.1}); // half a percent more than it should take
  TracingCost cost = fitTracing(runs);
  EXPECT_NEAR(cost.launch, 3e-6, 1e-8);
  EXPECT_NEAR(cost.step, 80e-6, 2e-6);
  for (TracedRun &run : runs)
    run.untraced -= 200e-6; // a step cannot take less than nothing
  EXPECT_EQ(fitTracing(runs).step, 0);
  EXPECT_GT(fitTracing(runs).launch, 3e-6);
  EXPECT_EQ(fitTracing({}).launch, 0);
}

TEST(FitDevice, LeavesADeviceOfWhichNothingIsKnown) {
  Device device;
  device.set_memory_bandwidth(7);
  fitDevice({}, device);
  EXPECT_EQ(device.memory_bandwidth(), 7);
}

} // namespace
} // namespace dtc::timing
