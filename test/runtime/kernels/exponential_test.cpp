// The vector exponential against the C library's, in units in the last place.
#include "test/runtime/kernels/support.h"

#include <limits>

namespace dtc::kernels::test {
namespace {

float evaluate(const VariantTable *level, float x) {
  float y = 0;
  void *buffers[] = {&x, &y};
  level->exponential(buffers, nullptr, 0, 1);
  return y;
}

TEST(Exponential, IsWithinTwoUnitsInTheLastPlace) {
  std::vector<float> in;
  for (float x = -87.3f; x < 88.7f; x += 0.00037f)
    in.push_back(x);
  for (const VariantTable *level : levels()) {
    std::vector<float> out(in.size());
    runInParts(level->exponential, {in.data(), out.data()}, {}, in.size(), 3);
    double worst = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      double exact = std::exp(static_cast<double>(in[i]));
      float rounded = static_cast<float>(exact);
      double unit = std::nextafter(rounded, std::numeric_limits<float>::infinity()) - rounded;
      worst = std::max(worst, std::abs(out[i] - exact) / unit);
    }
    EXPECT_LT(worst, 2) << levelName(level);
  }
}

TEST(Exponential, TreatsTheEndsOfTheRangeAsStated) {
  float infinity = std::numeric_limits<float>::infinity();
  for (const VariantTable *level : levels()) {
    EXPECT_EQ(evaluate(level, 0.0f), 1.0f);
    EXPECT_EQ(evaluate(level, -infinity), 0.0f);
    EXPECT_EQ(evaluate(level, -87.5f), 0.0f);
    EXPECT_EQ(evaluate(level, 89.0f), infinity);
    EXPECT_EQ(evaluate(level, 1e30f), infinity);
    EXPECT_EQ(evaluate(level, infinity), infinity);
    EXPECT_TRUE(std::isnan(evaluate(level, std::numeric_limits<float>::quiet_NaN())));
  }
}

} // namespace
} // namespace dtc::kernels::test
