// Products of bf16 of small integers, whose sums are exact at every level: sizes around those of panels, tiles
// and blocks, with all transposes and results, and the same bits however the grid is cut.
#include "test/runtime/kernels/support.h"

#include <array>
#include <limits>

namespace dtc::kernels::test {
namespace {

struct Product {
  int64_t m, n, k;
  bool transposeA = false, transposeB = false, accumulate = false, isWide = false;
  int64_t padding = 0; // of rows

  int64_t lda() const { return (transposeA ? m : k) + padding; }
  int64_t ldb() const { return (transposeB ? k : n) + padding; }
  int64_t ldc() const { return n + padding; }
};

std::ostream &operator<<(std::ostream &os, const Product &p) {
  return os << p.m << "x" << p.n << "x" << p.k << (p.transposeA ? " aT" : "") << (p.transposeB ? " bT" : "")
            << (p.accumulate ? " +=" : "") << (p.isWide ? " to f32" : "") << " padding " << p.padding;
}

/// Integers of at most `most`; after a row of `width` comes NaN.
std::vector<float> integers(int64_t rows, int64_t width, int64_t stride, int most, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<float> values(rows * stride, std::numeric_limits<float>::quiet_NaN());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < width; ++j)
      values[i * stride + j] = static_cast<float>(static_cast<int>(engine() % (2 * most + 1)) - most);
  return values;
}

/// Operands, and what must be written over `before`, whose padding stays.
struct Problem {
  Product p;
  std::vector<float> a, b, before;

  explicit Problem(const Product &p)
      : p(p), a(integers(p.transposeA ? p.k : p.m, p.transposeA ? p.m : p.k, p.lda(), 3, 1)),
        b(integers(p.transposeB ? p.n : p.k, p.transposeB ? p.k : p.n, p.ldb(), 3, 2)),
        before(integers(p.m, p.n, p.ldc(), 100, 3)) {
    for (float &value : before)
      value = std::isnan(value) ? 77.0f : value;
  }

  std::vector<float> expected() const {
    std::vector<float> result = before, row(p.n);
    for (int64_t i = 0; i < p.m; ++i) {
      std::fill(row.begin(), row.end(), 0.0f);
      for (int64_t k = 0; k < p.k; ++k) {
        float left = a[p.transposeA ? k * p.lda() + i : i * p.lda() + k];
        for (int64_t j = 0; j < p.n; ++j)
          row[j] += left * b[p.transposeB ? j * p.ldb() + k : k * p.ldb() + j];
      }
      for (int64_t j = 0; j < p.n; ++j)
        result[i * p.ldc() + j] = row[j] + (p.accumulate ? before[i * p.ldc() + j] : 0.0f);
    }
    return result;
  }

  /// The bits of the result, as f32 where that is its type.
  std::vector<uint32_t> run(const VariantTable *level, dtc_element type, bool splitColumns = false,
                            int64_t parts = 1) const {
    Narrow left(type, a), right(type, b), narrow(type, before);
    std::vector<float> wide = before;
    std::vector<int64_t> scalars = {
        1,       p.m, p.n, p.k, p.transposeA, p.transposeB, p.lda(), p.ldb(),
        p.ldc(), 0,   0,   0,   p.accumulate, splitColumns, type,    p.isWide ? dtc_f32 : type};
    void *result = p.isWide ? static_cast<void *>(wide.data()) : narrow.bits.data();
    runInParts(level->gemm, {left.bits.data(), right.bits.data(), result}, scalars, splitColumns ? p.n : p.m, parts);
    return p.isWide ? bitsOf(wide) : std::vector<uint32_t>(narrow.bits.begin(), narrow.bits.end());
  }

  std::vector<uint32_t> expectedBits(dtc_element type) const {
    std::vector<float> values = expected();
    if (p.isWide)
      return bitsOf(values);
    Narrow narrow(type, values);
    return {narrow.bits.begin(), narrow.bits.end()};
  }

  static std::vector<uint32_t> bitsOf(const std::vector<float> &values) {
    std::vector<uint32_t> bits;
    for (float value : values)
      bits.push_back(std::bit_cast<uint32_t>(value + 0.0f)); // one zero
    return bits;
  }
};

void expectExact(const Product &p) {
  Problem problem(p);
  std::vector<uint32_t> expected = problem.expectedBits(dtc_bf16);
  for (const VariantTable *level : levels())
    ASSERT_EQ(problem.run(level, dtc_bf16), expected) << levelName(level) << " " << p;
}

/// Calls each(product) with all transposes and results, and varying padding.
template <class Each> void forEachForm(int64_t m, int64_t n, int64_t k, Each each) {
  for (int form = 0; form < 16; ++form)
    each(Product{m, n, k, (form & 1) != 0, (form & 2) != 0, (form & 4) != 0, (form & 8) != 0, (m + n + k + form) % 3});
}

TEST(NarrowProducts, AreExactForEachNumberOfRows) {
  for (int64_t m = 1; m <= 70; ++m)
    forEachForm(m, 1 + m * 37 % 100, 1 + m * 53 % 200, expectExact);
}

TEST(NarrowProducts, AreExactForEachNumberOfColumns) {
  for (int64_t n = 1; n <= 100; ++n)
    forEachForm(1 + n * 37 % 70, n, 1 + n * 71 % 200, expectExact);
}

TEST(NarrowProducts, AreExactForEachDepth) {
  for (int64_t k = 0; k <= 200; ++k)
    forEachForm(1 + k * 37 % 70, 1 + k * 29 % 100, k, expectExact);
}

TEST(NarrowProducts, AreExactOverSeveralBlocks) {
  // Of the depth, with a last one of one element or of many.
  for (int64_t k : {255, 1024, 1025, 1537, 2400})
    forEachForm(35, 67, k, expectExact);
  // Of rows and columns, of one block of the depth and of two.
  for (auto [m, n, k] : {std::array<int64_t, 3>{1100, 1060, 65},
                         {1060, 1100, 65},
                         {1030, 1070, 1100},
                         {2100, 40, 1030},
                         {40, 2100, 1030}})
    for (bool transpose : {false, true})
      expectExact({m, n, k, transpose, !transpose, transpose, transpose, 1});
}

void expectSameHoweverCut(const Product &p) {
  Problem problem(p);
  // Sums that must be rounded.
  problem.a = randomFloats(problem.a.size(), 1);
  problem.b = randomFloats(problem.b.size(), 2);
  for (const VariantTable *level : levels()) {
    std::vector<uint32_t> whole = problem.run(level, dtc_bf16);
    for (int64_t parts : {2, 7})
      for (bool splitColumns : {false, true})
        ASSERT_EQ(problem.run(level, dtc_bf16, splitColumns, parts), whole)
            << levelName(level) << " " << p << (splitColumns ? " columns" : " rows") << " in " << parts;
  }
}

TEST(NarrowProducts, DoNotDependOnHowTheGridIsCut) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{70, 100, 200}, {130, 90, 1100}, {33, 500, 40}})
    forEachForm(m, n, k, expectSameHoweverCut);
  for (bool isWide : {false, true})
    expectSameHoweverCut({700, 800, 1600, isWide, isWide, false, isWide, 0});
}

} // namespace
} // namespace dtc::kernels::test
