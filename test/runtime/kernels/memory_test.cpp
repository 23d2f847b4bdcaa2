// Gather, scatter-add, strided copy, fill and rotary embedding.
#include "test/runtime/kernels/support.h"

#include <numeric>

namespace dtc::kernels::test {
namespace {

TEST(Find, KnowsEveryKernelAndNothingElse) {
  for (const char *name : {"dtc_gemm", "dtc_attention_forward", "dtc_attention_backward", "dtc_rotary", "dtc_gather",
                           "dtc_scatter_add", "dtc_write_rows", "dtc_copy", "dtc_fill"})
    EXPECT_NE(find(name), nullptr) << name;
  EXPECT_EQ(find("dtc_copy"), &dtc_copy);
  EXPECT_EQ(find("dtc_"), nullptr);
  EXPECT_EQ(find("memcpy"), nullptr);
}

TEST(Gather, RowsOutsideTheShardAreZero) {
  std::vector<float> table = {1, 2, 3, 4, 5, 6};
  std::vector<int32_t> indices = {11, 9, 10, 13, 12, -100};
  std::vector<float> out(12, 77.0f);
  runInParts(dtc_gather, {table.data(), indices.data(), out.data()}, {3, 2, 10, 4}, 6, 4);
  EXPECT_EQ(out, (std::vector<float>{3, 4, 0, 0, 1, 2, 0, 0, 5, 6, 0, 0}));
}

TEST(ScatterAdd, AddsInOrderAndSkipsRowsOutsideTheShard) {
  std::vector<float> updates = {1, 2, 10, 20, 100, 200, 5, 5};
  std::vector<int32_t> indices = {7, 6, 7, 8};
  std::vector<float> out = {0.5f, 0.25f, 1, 1};
  runInParts(dtc_scatter_add, {updates.data(), indices.data(), out.data()}, {2, 2, 6, 4}, 2, 2);
  EXPECT_EQ(out, (std::vector<float>{10.5f, 20.25f, 102, 203}));
}

/// Two of four positions are within the cache; the rows are every other one of a larger tensor.
TEST(WriteRows, GoToTheirPositionsAndSkipThoseOutside) {
  std::vector<float> rows(32), out(12, -1.0f);
  std::iota(rows.begin(), rows.end(), 0.0f);
  std::vector<int32_t> positions = {2, -1, 0, 3};
  runInParts(dtc_write_rows, {rows.data(), positions.data(), out.data()}, {2, 4, 1, 2, 3, 16, 4, 4, 4}, 8);
  EXPECT_EQ(out, (std::vector<float>{8, 9, -1, -1, 0, 1, 24, 25, -1, -1, 16, 17}));
}

TEST(Fill, WritesTheBitPattern) {
  std::vector<float> out(9, 3.0f);
  runInParts(dtc_fill, {out.data()}, {static_cast<int64_t>(std::bit_cast<uint32_t>(-2.5f)), 4}, 9, 2);
  EXPECT_EQ(out, std::vector<float>(9, -2.5f));
}

/// in[i][j][k] to out[k][j][i].
TEST(Copy, Transposes) {
  std::vector<float> in(24), out(24);
  std::iota(in.begin(), in.end(), 0.0f);
  runInParts(dtc_copy, {in.data(), out.data()},
             {1, 1, 1, 2, 3, 4, 0, 0, 0, 12, 4, 1, 0, 0, 0, 1, 2, 6, 0, 0, INT64_MAX, 0, 0, 4}, 1);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k)
        EXPECT_EQ(out[(k * 3 + j) * 2 + i], in[(i * 3 + j) * 4 + k]);
}

TEST(Copy, OffsetsPickASliceAndItsPlace) {
  std::vector<float> in(12), out(8, -1.0f);
  std::iota(in.begin(), in.end(), 0.0f);
  // Columns 2 and 3 of in [3, 4] to columns 0 and 1 of out, from its second element.
  runInParts(dtc_copy, {in.data(), out.data()},
             {3, 2, 1, 1, 1, 1, 4, 1, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 2, 1, INT64_MAX, 0, 0, 4}, 6, 4);
  EXPECT_EQ(out, (std::vector<float>{-1, 2, 3, 6, 7, 10, 11, -1}));
}

/// A source of 5 elements along a dimension, of which this rank's slice of 3 starts at 3: two exist, one is padding.
TEST(Copy, WritesZerosBeyondTheSource) {
  std::vector<float> in = {0, 1, 2, 3, 4};
  for (int dim = 0; dim < 6; ++dim) {
    std::vector<float> out(3, -1.0f);
    std::vector<int64_t> scalars(24, 0);
    scalars[23] = 4;
    std::fill_n(scalars.begin(), 6, 1);
    scalars[dim] = 3;
    scalars[6 + dim] = scalars[12 + dim] = 1;
    scalars[18] = 3;
    scalars[20] = 5;
    scalars[21] = dim;
    scalars[22] = 3;
    runInParts(dtc_copy, {in.data(), out.data()}, scalars, scalars[0] * scalars[1]);
    EXPECT_EQ(out, (std::vector<float>{3, 4, 0})) << "dimension " << dim;
    // A rank that holds padding only.
    scalars[18] = 0;
    scalars[22] = 6;
    runInParts(dtc_copy, {in.data(), out.data()}, scalars, scalars[0] * scalars[1]);
    EXPECT_EQ(out, (std::vector<float>{0, 0, 0})) << "dimension " << dim;
  }
}

/// The kernels that move elements, on elements of `Word`'s width; after each result comes an element that must stay.
template <typename Word> class MovesTest : public testing::Test {};
using Words = testing::Types<uint8_t, uint16_t, uint32_t>;
TYPED_TEST_SUITE(MovesTest, Words);

TYPED_TEST(MovesTest, KnowTheWidthOfAnElement) {
  std::vector<TypeParam> in(12), out(13, 99), filled(5, 99), rows(9, 99);
  std::iota(in.begin(), in.end(), TypeParam(201)); // more than a signed byte holds
  // in [3, 4] to out [4, 3], of which the last row lies beyond the source.
  std::vector<int64_t> copy = {1, 1, 1, 1, 3, 4, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0, 1, 3, 0, 0, 3, 5, 0, sizeof(TypeParam)};
  runInParts(dtc_copy, {in.data(), out.data()}, copy, 1);
  EXPECT_EQ(out, (std::vector<TypeParam>{201, 205, 209, 202, 206, 210, 203, 207, 211, 0, 0, 0, 99}));
  // Dense rows are copied whole.
  runInParts(dtc_copy, {in.data() + 4, out.data()},
             {1, 1, 1, 1, 1, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, INT64_MAX, 0, 0, sizeof(TypeParam)}, 1);
  EXPECT_EQ(out[3], 208);
  EXPECT_EQ(out[4], 206);
  runInParts(dtc_fill, {filled.data()}, {0xab, sizeof(TypeParam)}, 4, 3);
  EXPECT_EQ(filled, (std::vector<TypeParam>{0xab, 0xab, 0xab, 0xab, 99}));
  std::vector<int32_t> indices = {2, 7};
  runInParts(dtc_gather, {in.data(), indices.data(), rows.data()}, {3, 4, 0, sizeof(TypeParam)}, 2, 2);
  EXPECT_EQ(rows, (std::vector<TypeParam>{209, 210, 211, 212, 0, 0, 0, 0, 99}));
}

/// Widths, how many pairs turn, whether frequencies are scaled, and the amplitude.
class RotaryTest : public testing::TestWithParam<std::tuple<int64_t, int64_t, bool, double>> {};

/// Llama 3.1's frequencies, as its authors publish them: those of waves longer than the old context are divided by 8,
/// those of short waves are kept, and those between are blended.
double llama3Frequency(double frequency) {
  constexpr double lowFactor = 1, highFactor = 4, oldContext = 8192, factor = 8;
  double wavelength = 2 * M_PI / frequency;
  if (wavelength < oldContext / highFactor)
    return frequency;
  if (wavelength > oldContext / lowFactor)
    return frequency / factor;
  double smooth = (oldContext / wavelength - lowFactor) / (highFactor - lowFactor);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

TEST_P(RotaryTest, RotatesPairsAndBackAgain) {
  constexpr int64_t outer = 2, length = 3, inner = 2;
  auto [width, pairs, scaled, amplitude] = GetParam();
  std::vector<int32_t> positions = {0, 5, 70000};
  std::vector<float> x = randomFloats(outer * length * inner * width, 1);
  std::vector<double> expected(x.begin(), x.end()), twice = expected;
  for (size_t row = 0; row < x.size() / width; ++row)
    for (int64_t i = 0; i < pairs; ++i) {
      double frequency = std::pow(10000.0, -double(i) / double(pairs));
      double angle = positions[row / inner % length] * (scaled ? llama3Frequency(frequency) : frequency);
      size_t first = row * width + i, second = first + pairs;
      double a = x[first], b = x[second];
      expected[first] = amplitude * (a * std::cos(angle) - b * std::sin(angle));
      expected[second] = amplitude * (b * std::cos(angle) + a * std::sin(angle));
      twice[first] *= amplitude * amplitude, twice[second] *= amplitude * amplitude;
    }
  std::vector<int64_t> scalars = {outer,
                                  length,
                                  inner,
                                  width,
                                  real(10000.0),
                                  1,
                                  length * inner * width,
                                  inner * width,
                                  width,
                                  length * inner * width,
                                  inner * width,
                                  width,
                                  dtc_f32,
                                  pairs,
                                  real(scaled ? 8 : 1),
                                  real(scaled ? 8192 / (2 * M_PI) / 3 : 0),
                                  0,
                                  real(scaled ? -1.0 / 3 : 0),
                                  real(amplitude)};
  for (const VariantTable *level : levels()) {
    std::vector<float> out(x.size());
    scalars[5] = 1;
    runInParts(level->rotary, {x.data(), positions.data(), out.data()}, scalars, outer * length, 4);
    EXPECT_LT(relativeError(out, expected), 1e-7) << levelName(level);
    // In place, backward.
    scalars[5] = -1;
    runInParts(level->rotary, {out.data(), positions.data(), out.data()}, scalars, outer * length, 4);
    EXPECT_LT(relativeError(out, twice), 2e-7) << levelName(level);
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, RotaryTest,
                         testing::Values(std::tuple(2, 1, false, 1.0), std::tuple(6, 3, false, 1.0),
                                         std::tuple(64, 32, false, 1.0), std::tuple(80, 40, false, 1.5),
                                         std::tuple(64, 32, true, 1.0), std::tuple(80, 10, true, 0.7),
                                         std::tuple(6, 1, false, 1.0)));

} // namespace
} // namespace dtc::kernels::test
