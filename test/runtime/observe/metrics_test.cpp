#include "runtime/observe/metrics.h"

#include "test/runtime/temporary_directory.h"

#include <fstream>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

using namespace dtc;
using namespace dtc::test;
using nlohmann::json;

namespace {

// Four ranks that need half a second for 4096 tokens do 2048 a second each; at a million operations a token that is
// 0.002048 TFLOP/s, a fifth of what a rank of 0.01024 could do.
TEST(Metrics, RatesAreOfOneRank) {
  StepMetrics line;
  line.setRates(/*tokens=*/4096, /*seconds=*/0.5, /*ranks=*/4, /*flopsPerToken=*/1e6, /*peakFlops=*/1.024e10);
  EXPECT_EQ(line.stepSeconds, 0.5);
  EXPECT_DOUBLE_EQ(line.tokensPerSecond, 2048);
  EXPECT_DOUBLE_EQ(line.teraflops, 0.002048);
  EXPECT_DOUBLE_EQ(line.utilisation.value_or(0), 20);
}

TEST(Metrics, WhatADeviceCanDoMayBeUnknown) {
  StepMetrics line;
  line.setRates(/*tokens=*/4096, /*seconds=*/0.5, /*ranks=*/4, /*flopsPerToken=*/1e6, /*peakFlops=*/0);
  EXPECT_FALSE(line.utilisation);
  EXPECT_DOUBLE_EQ(line.teraflops, 0.002048);
}

class MetricsFile : public testing::Test {
protected:
  void write(bool append, int64_t step) {
    MetricsWriter writer(path);
    writer.begin(append);
    StepMetrics line;
    line.step = step;
    EXPECT_EQ(writer.step(line), "");
    writer.close();
  }

  std::vector<json> lines() {
    std::ifstream file(path);
    std::vector<json> all;
    for (std::string line; std::getline(file, line);)
      all.push_back(json::parse(line));
    return all;
  }

  TemporaryDirectory directory;
  std::string path = directory / "metrics.jsonl";
};

TEST_F(MetricsFile, EachFigureHasItsName) {
  StepMetrics::Time time{std::chrono::milliseconds(1709247909007)}; // what `date -u` makes of it
  StepMetrics line{.step = 1,
                   .time = time,
                   .loss = 2,
                   .gradientNorm = 3,
                   .learningRate = 4,
                   .tokensSeen = 5,
                   .tokensPerSecond = 6,
                   .teraflops = 7,
                   .utilisation = 8,
                   .stepSeconds = 16,
                   .dataSeconds = 4,
                   .deviceWaitSeconds = 17,
                   .checkpointSeconds = 18,
                   .arenaGiB = 9,
                   .peakMemoryGiB = 10,
                   .compute = ComputeTimes(std::vector<double>{3, 1})};
  {
    MetricsWriter writer(path);
    writer.begin(/*append=*/false);
    EXPECT_EQ(writer.step(line), "");
    line.gradientNorm.reset();
    line.utilisation.reset();
    line.deviceWaitSeconds.reset();
    line.checkpointSeconds.reset();
    line.compute.reset();
    EXPECT_EQ(writer.step(line), "");
    EXPECT_EQ(writer.validation(11, time, 12), "");
  }
  json expected = {{"step", 1},
                   {"time", "2024-02-29T23:05:09.007Z"},
                   {"loss_metrics/global_avg_loss", 2.0},
                   {"grad_norm", 3.0},
                   {"lr", 4.0},
                   {"n_tokens_seen", 5},
                   {"throughput(tps)", 6.0},
                   {"tflops", 7.0},
                   {"mfu(%)", 8.0},
                   {"time_metrics/end_to_end(s)", 16.0},
                   {"time_metrics/data_loading(s)", 4.0},
                   {"time_metrics/data_loading(%)", 25.0},
                   {"time_metrics/device_wait(s)", 17.0},
                   {"time_metrics/checkpoint_wait(s)", 18.0},
                   {"time_metrics/compute_min(s)", 1.0},
                   {"time_metrics/compute_median(s)", 2.0},
                   {"time_metrics/compute_max(s)", 3.0},
                   {"time_metrics/compute_variation(%)", 50.0},
                   {"time_metrics/slowest_rank", 0},
                   {"memory/max_active(GiB)", 9.0},
                   {"memory/max_reserved(GiB)", 10.0}};
  std::vector<json> all = lines();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], expected);
  for (const char *unknown :
       {"grad_norm", "mfu(%)", "time_metrics/device_wait(s)", "time_metrics/checkpoint_wait(s)",
        "time_metrics/compute_min(s)", "time_metrics/compute_median(s)", "time_metrics/compute_max(s)",
        "time_metrics/compute_variation(%)", "time_metrics/slowest_rank"})
    expected.erase(unknown);
  EXPECT_EQ(all[1], expected);
  EXPECT_EQ(all[2], json({{"step", 11}, {"time", "2024-02-29T23:05:09.007Z"}, {"validation_metrics/loss", 12.0}}));
}

TEST_F(MetricsFile, AResumedRunAppendsAndANewOneReplaces) {
  write(false, 1);
  write(true, 2);
  EXPECT_EQ(lines().size(), 2u);
  write(false, 3);
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_EQ(lines()[0]["step"], 3);
}

// A fresh process of some megabytes: more than the pages it must have, less than the machine can hold.
TEST(Metrics, PeakMemoryIsInGibibytes) {
  EXPECT_GT(peakMemoryGiB(), 1.0 / 1024);
  EXPECT_LT(peakMemoryGiB(), 4);
}

} // namespace
