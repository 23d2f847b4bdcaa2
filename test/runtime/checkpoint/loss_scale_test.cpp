// The loss scale compared with torch.amp.GradScaler's, as recorded in test/e2e/oracle/grad_scaler.json.
#include "runtime/checkpoint/loss_scale.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dtc {
namespace {

TEST(LossScale, FollowsGradScaler) {
  std::ifstream file(DTC_SOURCE_DIR "/test/e2e/oracle/grad_scaler.json");
  nlohmann::json record = nlohmann::json::parse(file);
  size_t steps = 0;
  for (const nlohmann::json &each : record["cases"]) {
    LossScale scale{.value = each["scale"]};
    int64_t skipped = 0;
    for (size_t step = 0; step < each["overflows"].size(); ++step, ++steps) {
      ASSERT_EQ(scale.value, each["scales"][step].get<double>()) << "window " << each["interval"] << ", step " << step;
      bool overflows = each["overflows"][step];
      scale.update(!overflows, each["interval"]);
      skipped += overflows;
    }
    EXPECT_EQ(scale.skipped, skipped);
  }
  EXPECT_GT(steps, 150u);
}

TEST(LossScale, ShrinksToItsFloor) {
  LossScale scale{.value = 4};
  for (double expected : {4.0, 2.0}) {
    EXPECT_TRUE(scale.canShrink());
    EXPECT_EQ(scale.value, expected);
    scale.update(false, 1);
  }
  EXPECT_FALSE(scale.canShrink());
}

} // namespace
} // namespace dtc
