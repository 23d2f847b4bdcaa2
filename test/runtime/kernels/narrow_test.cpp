// Library kernels on bf16 and f16: they widen, compute in f32 and round once, so their results are, to the bit, the
// rounded results of the same kernel on the widened operands. Only products of pairs and tiles of bf16 add in another
// order.
#include "test/runtime/kernels/support.h"

#include <limits>

namespace dtc::kernels::test {
namespace {

constexpr dtc_element narrowTypes[] = {dtc_bf16, dtc_f16};

struct Shape {
  int64_t batch, m, n, k;
  bool transposeA, transposeB;
  int64_t padding;
};

/// Fills the memory in which products are packed with NaN.
void fillPanelsWithNans(const VariantTable *level, dtc_element type) {
  constexpr int64_t rows = 256, cols = 48, depth = 1536;
  std::vector<uint16_t> operand(rows * depth, type == dtc_bf16 ? 0x7fc0 : 0x7e00);
  std::vector<float> result(rows * cols);
  runInParts(level->gemm, {operand.data(), operand.data(), result.data()},
             {1, rows, cols, depth, false, false, depth, cols, cols, 0, 0, 0, 0, false, type, dtc_f32}, rows);
  ASSERT_TRUE(std::isnan(result.back()));
}

class NarrowGemm : public testing::TestWithParam<Shape> {
protected:
  int64_t lda() const { return (shape.transposeA ? shape.m : shape.k) + shape.padding; }
  int64_t ldb() const { return (shape.transposeB ? shape.k : shape.n) + shape.padding; }
  int64_t ldc() const { return shape.n + shape.padding; }
  int64_t strideA() const { return lda() * (shape.transposeA ? shape.k : shape.m) + shape.padding; }
  int64_t strideB() const { return ldb() * (shape.transposeB ? shape.n : shape.k) + shape.padding; }
  int64_t strideC() const { return ldc() * shape.m + shape.padding; }

  /// Random; between rows and batches, which nobody may read, there is NaN.
  std::vector<float> operand(int64_t ld, int64_t stride, unsigned seed) const {
    std::vector<float> values = randomFloats(shape.batch * stride, seed);
    for (int64_t i = 0; i < shape.batch * stride; ++i)
      if (int64_t at = i % stride; at % ld >= ld - shape.padding || at >= stride - shape.padding)
        values[i] = std::numeric_limits<float>::quiet_NaN();
    return values;
  }
  std::vector<float> operandA() const { return operand(lda(), strideA(), 1); }
  std::vector<float> operandB() const { return operand(ldb(), strideB(), 2); }

  void run(const VariantTable *level, const void *a, const void *b, void *c, dtc_element operands, dtc_element result,
           bool splitColumns = false, int64_t parts = 1) const {
    std::vector<int64_t> scalars = {shape.batch, shape.m,      shape.n,  shape.k,   shape.transposeA, shape.transposeB,
                                    lda(),       ldb(),        ldc(),    strideA(), strideB(),        strideC(),
                                    0,           splitColumns, operands, result};
    runInParts(level->gemm, {buffer(a), buffer(b), c}, scalars, shape.batch * (splitColumns ? shape.n : shape.m),
               parts);
  }

  Shape shape = GetParam();
};

TEST_P(NarrowGemm, RoundsTheProductOfTheWidenedOperandsOnce) {
  for (const VariantTable *level : levels())
    for (dtc_element type : narrowTypes) {
      SCOPED_TRACE(levelName(level) + " type " + std::to_string(type));
      Narrow a(type, operandA()), b(type, operandB());
      std::vector<float> wideA = a.values(), wideB = b.values();
      // Between the rows of a result is what must stay.
      std::vector<float> expected(shape.batch * strideC(), 77.0f), widened = expected;
      Narrow rounded(type, expected);
      run(level, wideA.data(), wideB.data(), expected.data(), dtc_f32, dtc_f32);
      fillPanelsWithNans(level, type);
      run(level, a.bits.data(), b.bits.data(), widened.data(), type, dtc_f32);
      run(level, a.bits.data(), b.bits.data(), rounded.bits.data(), type, type);
      if ((level == &v4bf16::table || level == &v4amx::table) && type == dtc_bf16) {
        // Another order of the sums, the same in both types of result.
        EXPECT_LT(relativeError(widened, std::vector<double>(expected.begin(), expected.end())), 1e-6);
        expected = widened;
      }
      ASSERT_EQ(widened, expected);
      ASSERT_EQ(rounded.bits, Narrow(type, expected).bits);
    }
}

TEST_P(NarrowGemm, DoesNotDependOnHowTheGridIsCut) {
  for (const VariantTable *level : levels())
    for (dtc_element type : narrowTypes) {
      Narrow a(type, operandA()), b(type, operandB());
      Narrow whole(type, std::vector<float>(shape.batch * strideC())), cut = whole;
      run(level, a.bits.data(), b.bits.data(), whole.bits.data(), type, type);
      for (bool splitColumns : {false, true}) {
        run(level, a.bits.data(), b.bits.data(), cut.bits.data(), type, type, splitColumns, 5);
        EXPECT_EQ(cut.bits, whole.bits) << levelName(level) << " type " << type;
      }
    }
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true}) {
      all.push_back({1, 8, 48, 64, transposeA, transposeB, 0});
      all.push_back({3, 13, 61, 7, transposeA, transposeB, 3}); // odd strides: pairs are not at whole words
      all.push_back({2, 85, 100, 37, transposeA, transposeB, 4});
      // More than one block of the depth, also in pairs; more than one part of the result.
      all.push_back({1, 19, 113, 3203, transposeA, transposeB, 1});
      all.push_back({1, 530, 800, 1602, transposeA, transposeB, 0});
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Shapes, NarrowGemm, testing::ValuesIn(shapes()));

/// x[i] * 1 for numbers that are halfway, too large, subnormal, infinite and not a number.
TEST(Narrowing, RoundsToTheNearestWithTiesToEven) {
  float infinity = std::numeric_limits<float>::infinity();
  for (const VariantTable *level : levels())
    for (dtc_element type : narrowTypes) {
      const abi::ElementType &row = abi::elementType(static_cast<abi::DataType>(type));
      float unit = std::ldexp(1.0f, -row.fractionBits), most = type == dtc_f16 ? 65504.0f : 0x1.fep127f;
      // Sums of two products make the halves.
      std::vector<float> a = {1, unit / 2, 1, 3 * unit / 2, 1, unit / 2 * 1.25f, most, most / 4, 0, 0, infinity, 1};
      Narrow left(type, a), right(type, {1, 1}), out(type, std::vector<float>(6));
      std::vector<int64_t> scalars = {1, 6, 1, 2, 0, 0, 2, 1, 1, 0, 0, 0, 0, 0, type, type};
      runInParts(level->gemm, {left.bits.data(), right.bits.data(), out.bits.data()}, scalars, 6);
      EXPECT_EQ(out.values(), (std::vector<float>{1, 1 + 2 * unit, 1 + unit, infinity, 0, infinity}))
          << levelName(level) << " type " << type;
      left.bits[0] = type == dtc_f16 ? 0x7c01 : 0x7f81; // a signalling NaN
      runInParts(level->gemm, {left.bits.data(), right.bits.data(), out.bits.data()}, scalars, 6);
      EXPECT_TRUE(std::isnan(out.values()[0])) << levelName(level);
    }
}

/// Whole vectors of a result are written another way than the ends of rows.
TEST(Narrowing, OfWholeRowsIsThatOfTheirElements) {
  constexpr int64_t cols = 96;
  for (const VariantTable *level : levels())
    for (dtc_element type : narrowTypes) {
      // Two numbers of any bits, so that their sum is subnormal, infinite or NaN for some.
      Narrow ones(type, {1, 1}), right(type, std::vector<float>(2 * cols)), row(type, std::vector<float>(cols));
      std::mt19937 engine(1);
      for (int round = 0; round < 200; ++round) {
        for (uint16_t &bits : right.bits)
          bits = static_cast<uint16_t>(engine());
        std::vector<int64_t> scalars = {1, 1, cols, 2, 0, 0, 2, cols, cols, 0, 0, 0, 0, 0, type, type};
        runInParts(level->gemm, {ones.bits.data(), right.bits.data(), row.bits.data()}, scalars, 1);
        scalars[2] = 1;
        for (int64_t j = 0; j < cols; ++j) {
          uint16_t element = 0;
          runInParts(level->gemm, {ones.bits.data(), right.bits.data() + j, &element}, scalars, 1);
          ASSERT_EQ(row.bits[j], element) << levelName(level) << " type " << type;
        }
      }
    }
}

TEST(NarrowRotary, RoundsTheRotationOfTheWidenedOnce) {
  constexpr int64_t length = 3, inner = 2;
  std::vector<int32_t> positions = {0, 5, 70000};
  for (int64_t width : {2, 10, 64})
    for (const VariantTable *level : levels())
      for (dtc_element type : narrowTypes) {
        Narrow x(type, randomFloats(length * inner * width, 1)), out = x;
        std::vector<float> wide = x.values(), expected(wide.size());
        std::vector<int64_t> scalars = {
            1,     length, inner,         width, real(10000.0), 1,         0,       inner * width,
            width, 0,      inner * width, width, dtc_f32,       width / 2, real(1), 0,
            0,     0,      real(1)};
        runInParts(level->rotary, {wide.data(), positions.data(), expected.data()}, scalars, length);
        scalars[12] = type;
        runInParts(level->rotary, {x.bits.data(), positions.data(), out.bits.data()}, scalars, length, 2);
        EXPECT_EQ(out.bits, Narrow(type, expected).bits) << levelName(level) << " width " << width;
      }
}

TEST(NarrowAttention, RoundsWhatTheWidenedGive) {
  for (auto [queries, width] : {std::pair<int64_t, int64_t>(5, 8), {70, 24}, {33, 64}})
    for (const VariantTable *level : levels())
      for (dtc_element type : narrowTypes) {
        SCOPED_TRACE(levelName(level) + " type " + std::to_string(type) + " width " + std::to_string(width));
        constexpr int64_t groups = 2, repeats = 2;
        int64_t heads = groups * repeats;
        std::vector<int64_t> ofQueries = {queries * heads * width, heads * width, repeats * width, width},
                             ofKeys = {queries * groups * width, groups * width, width};
        std::vector<int64_t> scalars = {1, queries, queries, groups, repeats, width};
        auto append = [&](const std::vector<int64_t> &more) {
          scalars.insert(scalars.end(), more.begin(), more.end());
        };
        append(ofQueries), append(ofKeys), append(ofKeys), append(ofQueries);
        append({real(0.3), 1, real(0.25), 7, 0, 0, 0, groups, repeats, queries, dtc_f32, 40, real(2), 0});
        std::vector<int32_t> positions(queries), key = {5, 6, 7, 0};
        for (int64_t i = 0; i < queries; ++i)
          positions[i] = static_cast<int32_t>(i);

        Narrow q(type, randomFloats(queries * heads * width, 1)), k(type, randomFloats(queries * groups * width, 2)),
            v(type, randomFloats(queries * groups * width, 3)), dOut(type, randomFloats(queries * heads * width, 4));
        std::vector<float> wideQ = q.values(), wideK = k.values(), wideV = v.values(), wideDOut = dOut.values();
        std::vector<float> wideOut(wideQ.size()), lse(heads * queries), narrowLse(lse.size());
        runInParts(level->attentionForward,
                   {wideQ.data(), wideK.data(), wideV.data(), positions.data(), positions.data(), key.data(),
                    wideOut.data(), lse.data()},
                   scalars, heads);
        Narrow out(type, wideOut);
        std::vector<uint16_t> expected = out.bits;
        std::fill(out.bits.begin(), out.bits.end(), 0);
        scalars[30] = type;
        runInParts(level->attentionForward,
                   {q.bits.data(), k.bits.data(), v.bits.data(), positions.data(), positions.data(), key.data(),
                    out.bits.data(), narrowLse.data()},
                   scalars, heads, 3);
        EXPECT_EQ(out.bits, expected);
        EXPECT_EQ(narrowLse, lse);

        append(ofQueries), append(ofQueries), append(ofKeys), append(ofKeys);
        Narrow dq = q, dk = k, dv = v;
        runInParts(level->attentionBackward,
                   {q.bits.data(), k.bits.data(), v.bits.data(), positions.data(), positions.data(), key.data(),
                    out.bits.data(), lse.data(), dOut.bits.data(), dq.bits.data(), dk.bits.data(), dv.bits.data()},
                   scalars, groups);
        scalars[30] = dtc_f32;
        wideOut = out.values();
        std::vector<float> wideDq(wideQ.size()), wideDk(wideK.size()), wideDv(wideV.size());
        runInParts(level->attentionBackward,
                   {wideQ.data(), wideK.data(), wideV.data(), positions.data(), positions.data(), key.data(),
                    wideOut.data(), lse.data(), wideDOut.data(), wideDq.data(), wideDk.data(), wideDv.data()},
                   scalars, groups);
        EXPECT_EQ(dq.bits, Narrow(type, wideDq).bits);
        EXPECT_EQ(dk.bits, Narrow(type, wideDk).bits);
        EXPECT_EQ(dv.bits, Narrow(type, wideDv).bits);
      }
}

} // namespace
} // namespace dtc::kernels::test
