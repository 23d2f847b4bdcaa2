#include "test/runtime/kernels/support.h"

namespace dtc::kernels::test {
namespace {

struct Case {
  int64_t batch, m, n, k;
  bool transposeA, transposeB, accumulate;
  int64_t padding; // between rows and between batches
};

std::ostream &operator<<(std::ostream &os, const Case &c) {
  return os << c.batch << "x" << c.m << "x" << c.n << "x" << c.k << (c.transposeA ? " aT" : "")
            << (c.transposeB ? " bT" : "") << (c.accumulate ? " +=" : "") << " padding " << c.padding;
}

/// Operands of one case and the product in f64.
struct Problem {
  Case shape;
  int64_t lda, ldb, ldc, strideA, strideB, strideC;
  std::vector<float> a, b, c;

  explicit Problem(Case shape) : shape(shape) {
    int64_t pad = shape.padding;
    lda = (shape.transposeA ? shape.m : shape.k) + pad;
    ldb = (shape.transposeB ? shape.k : shape.n) + pad;
    ldc = shape.n + pad;
    strideA = lda * (shape.transposeA ? shape.k : shape.m) + pad;
    strideB = ldb * (shape.transposeB ? shape.n : shape.k) + pad;
    strideC = ldc * shape.m + pad;
    a = randomFloats(shape.batch * strideA, 1);
    b = randomFloats(shape.batch * strideB, 2);
    c = randomFloats(shape.batch * strideC, 3);
  }

  std::vector<double> expected() const {
    std::vector<double> result(c.begin(), c.end());
    for (int64_t p = 0; p < shape.batch; ++p)
      for (int64_t i = 0; i < shape.m; ++i)
        for (int64_t j = 0; j < shape.n; ++j) {
          double &total = result[p * strideC + i * ldc + j];
          total = shape.accumulate ? total : 0.0;
          for (int64_t k = 0; k < shape.k; ++k)
            total += static_cast<double>(a[p * strideA + (shape.transposeA ? k * lda + i : i * lda + k)]) *
                     b[p * strideB + (shape.transposeB ? j * ldb + k : k * ldb + j)];
        }
    return result;
  }

  std::vector<float> run(dtc_kernel_fn kernel, bool splitCols, int64_t parts) const {
    std::vector<float> result = c;
    std::vector<int64_t> scalars = {
        shape.batch, shape.m, shape.n, shape.k, shape.transposeA, shape.transposeB, lda,     ldb,
        ldc,         strideA, strideB, strideC, shape.accumulate, splitCols,        dtc_f32, dtc_f32};
    runInParts(kernel, {buffer(a.data()), buffer(b.data()), result.data()}, scalars,
               shape.batch * (splitCols ? shape.n : shape.m), parts);
    return result;
  }
};

class GemmTest : public testing::TestWithParam<Case> {};

TEST_P(GemmTest, AgreesWithF64AndLeavesPaddingAlone) {
  Problem problem(GetParam());
  std::vector<double> expected = problem.expected();
  for (const VariantTable *level : levels()) {
    std::vector<float> actual = problem.run(level->gemm, false, 1);
    EXPECT_LT(relativeError(actual, expected), 1e-6) << levelName(level);
    for (size_t i = 0; i < actual.size(); ++i)
      ASSERT_NEAR(actual[i], expected[i], 1e-5 * (1 + std::sqrt(problem.shape.k))) << levelName(level) << " at " << i;
  }
}

TEST_P(GemmTest, DoesNotDependOnHowTheGridIsCut) {
  Problem problem(GetParam());
  for (const VariantTable *level : levels()) {
    std::vector<float> whole = problem.run(level->gemm, false, 1);
    for (int64_t parts : {2, 3, 7}) {
      EXPECT_EQ(problem.run(level->gemm, false, parts), whole) << levelName(level) << " rows in " << parts;
      EXPECT_EQ(problem.run(level->gemm, true, parts), whole) << levelName(level) << " columns in " << parts;
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true}) {
      all.push_back({1, 1, 1, 1, transposeA, transposeB, false, 0});
      all.push_back({1, 8, 48, 64, transposeA, transposeB, false, 0});
      all.push_back({3, 13, 61, 7, transposeA, transposeB, true, 3});
      all.push_back({2, 21, 100, 37, transposeA, transposeB, false, 5});
      // More than one block of K, of unequal depth; more than one panel; odd leading dimensions.
      all.push_back({1, 19, 113, 1601, transposeA, transposeB, true, 1});
    }
  // More than one block of rows.
  all.push_back({1, 1100, 50, 20, false, false, true, 0});
  all.push_back({1, 1100, 50, 20, true, true, false, 2});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Shapes, GemmTest, testing::ValuesIn(cases()));

TEST(GemmEdges, AnEmptySumIsZeroOrLeavesC) {
  std::vector<float> a(2), b(2), c = {1, 2, 3, 4};
  for (const VariantTable *level : levels()) {
    std::vector<float> kept = c, cleared = c;
    std::vector<int64_t> scalars = {1, 2, 2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 0, dtc_f32, dtc_f32};
    runInParts(level->gemm, {a.data(), b.data(), kept.data()}, scalars, 2);
    EXPECT_EQ(kept, c);
    scalars[12] = 0;
    runInParts(level->gemm, {a.data(), b.data(), cleared.data()}, scalars, 2);
    EXPECT_EQ(cleared, std::vector<float>(4, 0.0f));
  }
}

} // namespace
} // namespace dtc::kernels::test
