#include "timing/cost/cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace dtc::timing {
namespace {

/// 100 TFLOP/s in bf16, 10 in f32, 1 TB/s.
Device device() {
  Device device;
  for (auto [type, flops] : {std::pair("bf16", 100e12), std::pair("f32", 10e12)}) {
    Peak &peak = *device.add_peaks();
    peak.set_type(type);
    peak.set_flops(flops);
  }
  device.set_memory_bandwidth(1e12);
  device.set_launch_seconds(5e-6);
  return device;
}

Efficiency &reach(Device &device, const std::string &kernels, const std::string &type = "") {
  Efficiency &efficiency = *device.add_efficiencies();
  efficiency.set_kernel_class(kernels);
  efficiency.set_type(type);
  return efficiency;
}

void addPoint(Efficiency &efficiency, double flops, double bytes, double share) {
  Point &point = *efficiency.add_points();
  point.set_flops(flops);
  point.set_bytes(bytes);
  point.set_share(share);
}

double product(const Device &device, double flops, double bytes, abi::DataType type = abi::BF16) {
  return kernelSeconds(device, {abi::Work::PRODUCT, type, flops, bytes});
}

TEST(KernelCosts, TakeTheLongerOfComputeAndMemoryAndALaunch) {
  EXPECT_DOUBLE_EQ(product(device(), 1e12, 1e9), 5e-6 + 1e12 / 100e12);
  EXPECT_DOUBLE_EQ(product(device(), 1e12, 1e9, abi::F32), 5e-6 + 1e12 / 10e12);
  EXPECT_DOUBLE_EQ(product(device(), 1e9, 1e9), 5e-6 + 1e9 / 1e12);
  EXPECT_DOUBLE_EQ(product(device(), 0, 0), 5e-6);
}

TEST(KernelCosts, OfATypeWithoutAPeakAreComputedInF32) {
  EXPECT_DOUBLE_EQ(product(device(), 1e12, 1e6, abi::F16), product(device(), 1e12, 1e6, abi::F32));
  EXPECT_DOUBLE_EQ(product(device(), 1e12, 1e6, abi::I32), product(device(), 1e12, 1e6, abi::F32));
}

TEST(KernelCosts, ReachTheShareOfTheirClassAndType) {
  Device some = device();
  addPoint(reach(some, "product"), 0, 0, 0.5);
  EXPECT_DOUBLE_EQ(product(some, 1e12, 1e6), 5e-6 + 2 * 1e12 / 100e12) << "whatever the size";
  addPoint(reach(some, "product", "bf16"), 0, 0, 0.8);
  EXPECT_DOUBLE_EQ(product(some, 1e12, 1e6), 5e-6 + 1e12 / 100e12 / 0.8) << "its own type's first";
  EXPECT_DOUBLE_EQ(product(some, 1e12, 1e6, abi::F32), 5e-6 + 2 * 1e12 / 10e12);
  EXPECT_DOUBLE_EQ(kernelSeconds(some, {abi::Work::ELEMENTWISE, abi::F32, 0, 1e9}), 5e-6 + 1e-3) << "another class";
}

TEST(KernelCosts, BetweenMeasuredSizesShareIsBetweenTheirShares) {
  Device some = device();
  Efficiency &efficiency = reach(some, "product");
  addPoint(efficiency, 1e6, 1e4, 0.1);
  addPoint(efficiency, 1e12, 1e8, 0.8);
  auto share = [&](double flops, double bytes) {
    return std::max(flops / 100e12, bytes / 1e12) / (product(some, flops, bytes) - 5e-6);
  };
  EXPECT_NEAR(share(1e6, 1e4), 0.1, 1e-9);
  EXPECT_NEAR(share(1e12, 1e8), 0.8, 1e-9);
  EXPECT_NEAR(share(1e9, 1e6), std::sqrt(0.1 * 0.8), 1e-6) << "half way in logarithms";
}

// A copy of 8 MB with as many flops a byte says more of one of 1 MB than a kernel of 1 MB that computes much more.
TEST(KernelCosts, KernelsOfTheSameIntensityAreAlike) {
  Device some = device();
  Efficiency &efficiency = reach(some, "elementwise");
  addPoint(efficiency, 8e6, 8e6, 0.5);
  addPoint(efficiency, 8e6, 1e6, 0.1);
  double seconds = kernelSeconds(some, {abi::Work::ELEMENTWISE, abi::F32, 1e6, 1e6}) - 5e-6;
  EXPECT_NEAR(1e6 / 1e12 / seconds, 0.5, 0.05);
}

TEST(KernelCosts, OfMoreWorkTakeLonger) {
  Device some = device();
  Efficiency &efficiency = reach(some, "product");
  for (double size = 32; size <= 8192; size *= 4) // of square products, as measured ones rise
    addPoint(efficiency, 2 * size * size * size, 6 * size * size, 0.9 * size / (size + 300));
  double before = 0;
  for (double size = 8; size <= 32768; size *= 1.1) {
    double seconds = product(some, 2 * size * size * size, 6 * size * size);
    EXPECT_GT(seconds, before) << size;
    before = seconds;
  }
}

} // namespace
} // namespace dtc::timing
