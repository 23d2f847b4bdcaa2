// Figures of papers and course notes that are formulas, compared with ours. No measured step is among them.
#include "timing/cost/cost.h"
#include "timing/cost/scaling.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace dtc::timing {
namespace {

using abi::Collective;

constexpr double Day = 24 * 3600;

/// This many devices, each with 50 GB/s to the others, and no latency.
Cluster flat(uint32_t devices) {
  Cluster cluster;
  cluster.add_nodes()->set_devices(devices);
  Level &level = *cluster.add_levels();
  level.set_bandwidth(50e9);
  return cluster;
}

double seconds(Collective::Kind kind, double bytes, int64_t ranks) {
  return collectiveCost(flat(static_cast<uint32_t>(ranks)), kind, bytes, {{ranks}, ranks}).seconds;
}

// 2104.04473: 8 N tokens / (devices x achieved): their TFLOP/s count what is recomputed, so it is not 6 N.
TEST(CostGoldens, DaysOfTrainingByMegatron) {
  EXPECT_NEAR(recomputedTrainingFlops(175e9, 300e9) / (1024 * 140e12) / Day, 34, 0.5);
  EXPECT_NEAR(recomputedTrainingFlops(1e12, 450e9) / (3072 * 163e12) / Day, 84, 1);
}

// 2302.13971: 380 tokens a second on each of 2048 A100, 1.4T tokens, about 21 days. By 6 N they reach 48% of the peak.
TEST(CostGoldens, DaysOfTrainingOfLlama65B) {
  double rate = 2048 * 380, reached = trainingFlops(65.2e9, 380);
  EXPECT_NEAR(1.4e12 / rate / Day, 21, 0.5);
  EXPECT_NEAR(trainingFlops(65.2e9, 1.4e12) / (2048 * reached) / Day, 21, 0.5);
  EXPECT_NEAR(reached / 312e12, 0.48, 0.01);
}

// 2005.14165, table D.1: GPT-3 took 3.14e23 operations; course notes make 355 years of a V100 of them, at 28 TFLOP/s.
TEST(CostGoldens, OperationsOfGpt3) {
  double flops = trainingFlops(174.6e9, 300e9);
  EXPECT_NEAR(flops, 3.14e23, 0.005e23);
  EXPECT_NEAR(flops / 28e12 / Day / 365, 355, 2);
}

// 2203.15556: Chinchilla has 70B parameters and 1.4T tokens.
TEST(CostGoldens, TokensOfChinchilla) { EXPECT_DOUBLE_EQ(computeOptimalTokens(70e9), 1.4e12); }

// Course notes: 70B parameters, gradients of 16 bits, 50 GB/s: 5.6 s, so 64% beside 10 s of compute and 35% beside 3.
// That is of very many devices; the share 2 (p-1)/p makes it 5.51 s for 64.
TEST(CostGoldens, GradientsOf70BOver50GigabytesASecond) {
  double most = seconds(Collective::ALL_REDUCE, 140e9, 4096), of64 = seconds(Collective::ALL_REDUCE, 140e9, 64);
  EXPECT_NEAR(most, 5.6, 0.005);
  EXPECT_NEAR(of64, 5.5125, 1e-9);
  EXPECT_NEAR(10 / (10 + most), 0.64, 0.005);
  EXPECT_NEAR(3 / (3 + most), 0.35, 0.005);
}

// 1910.02054: stages 1 and 2 reduce-scatter gradients and gather parameters, as much as one all-reduce; stage 3 gathers
// them twice, and so takes half as much again.
TEST(CostGoldens, ZeroSendsTwiceAndThreeTimesTheParameters) {
  for (int64_t ranks : {2, 8, 64, 100, 4096}) {
    double once = seconds(Collective::ALL_GATHER, 15e9, ranks);
    EXPECT_DOUBLE_EQ(seconds(Collective::REDUCE_SCATTER, 15e9, ranks), once);
    EXPECT_DOUBLE_EQ(seconds(Collective::ALL_REDUCE, 15e9, ranks), 2 * once);
    EXPECT_DOUBLE_EQ(3 * once / seconds(Collective::ALL_REDUCE, 15e9, ranks), 1.5);
  }
}

TEST(ScalingLaws, FindsTheSerialShareThatMadeTheSpeedups) {
  for (double share : {0.0, 0.01, 0.2, 1.0}) {
    std::vector<Speedup> fixed, growing;
    for (int64_t ranks : {2, 8, 512}) {
      auto p = static_cast<double>(ranks);
      fixed.push_back({ranks, 1 / (share + (1 - share) / p)});
      growing.push_back({ranks, p - share * (p - 1)});
    }
    EXPECT_NEAR(serialShareByAmdahl(fixed), share, 1e-12);
    EXPECT_NEAR(serialShareByGustafson(growing), share, 1e-12);
  }
}

// Course notes: 1.9, 3.7 and 7.2 times on 2, 4 and 8 devices. Their serial share falls with the devices, as that of an
// all-reduce does not: by Amdahl it is 5%, 3% and 2%.
TEST(ScalingLaws, OfTheCourseNotesIsNoSingleShare) {
  std::array<Speedup, 3> notes = {{{2, 1.9}, {4, 3.7}, {8, 7.2}}};
  EXPECT_NEAR(serialShareByAmdahl({&notes[0], 1}), 0.0526, 1e-3);
  EXPECT_NEAR(serialShareByAmdahl({&notes[1], 1}), 0.0270, 1e-3);
  EXPECT_NEAR(serialShareByAmdahl({&notes[2], 1}), 0.0159, 1e-3);
  double all = serialShareByAmdahl(notes);
  EXPECT_GT(all, 0.0159);
  EXPECT_LT(all, 0.0526);
}

} // namespace
} // namespace dtc::timing
