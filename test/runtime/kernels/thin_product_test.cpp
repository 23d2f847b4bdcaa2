// Products of a few rows against those of packed panels, which a product of more rows uses: the same bits, except for
// bf16 in tiles. Operands end where memory does, and after their rows comes NaN.
#include "test/runtime/kernels/support.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <span>
#include <tuple>

namespace dtc::kernels::test {
namespace {

/// Bytes after which no memory can be read.
class Guarded {
public:
  explicit Guarded(const std::vector<std::byte> &bytes) {
    size_t page = sysconf(_SC_PAGESIZE), room = (bytes.size() + page - 1) / page * page;
    size = room + page;
    base = static_cast<std::byte *>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(static_cast<void *>(base), MAP_FAILED);
    EXPECT_EQ(mprotect(base + room, page, PROT_NONE), 0);
    first = base + room - bytes.size();
    std::ranges::copy(bytes, first);
  }
  ~Guarded() { munmap(base, size); }
  Guarded(const Guarded &) = delete;
  Guarded &operator=(const Guarded &) = delete;

  std::byte *data() const { return first; }

private:
  size_t size;
  std::byte *base, *first;
};

int64_t widthOf(dtc_element type) { return type == dtc_f32 ? 4 : 2; }

/// `rows` rows of random numbers, with NaN after each but the last.
std::vector<std::byte> matrix(dtc_element type, int64_t rows, int64_t columns, int64_t stride, unsigned seed) {
  std::vector<float> values = randomFloats(std::max<int64_t>(0, (rows - 1) * stride + columns), seed);
  for (size_t i = 0; i < values.size(); ++i)
    if (static_cast<int64_t>(i) % stride >= columns)
      values[i] = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::byte> bytes(values.size() * widthOf(type));
  auto take = [&](const auto &numbers) {
    std::ranges::copy(std::as_bytes(std::span(numbers)), bytes.begin());
  };
  if (type == dtc_f32)
    take(values);
  else
    take(Narrow(type, values).bits);
  return bytes;
}

struct Form {
  dtc_element operands, result;
  bool transposeA, transposeB, accumulate;
  int64_t padding;
};

/// A product of `manyRows` rows, of which the first few can be computed alone.
struct Problem {
  static constexpr int64_t manyRows = 9;
  Form form;
  int64_t n, k, lda, ldb, ldc;
  std::vector<std::byte> a, b, c;

  Problem(const Form &form, int64_t n, int64_t k) : form(form), n(n), k(k) {
    lda = (form.transposeA ? manyRows : k) + form.padding, ldb = (form.transposeB ? k : n) + form.padding;
    ldc = n + form.padding;
    a = matrix(form.operands, form.transposeA ? k : manyRows, form.transposeA ? manyRows : k, lda, 1);
    b = matrix(form.operands, form.transposeB ? n : k, form.transposeB ? k : n, ldb, 2);
    c = matrix(form.result, manyRows, n, ldc, 3);
  }

  /// The first `kept` rows of the result of a product of `m` rows, its columns cut into `parts`.
  std::vector<std::byte> run(const VariantTable *level, int64_t m, int64_t kept, int64_t parts = 1) const {
    Guarded left(a), right(b), out(c);
    std::vector<int64_t> scalars = {1,
                                    m,
                                    n,
                                    k,
                                    form.transposeA,
                                    form.transposeB,
                                    lda,
                                    ldb,
                                    ldc,
                                    0,
                                    0,
                                    0,
                                    form.accumulate,
                                    1,
                                    form.operands,
                                    form.result};
    runInParts(level->gemm, {left.data(), right.data(), out.data()}, scalars, n, parts);
    int64_t bytes = ((kept - 1) * ldc + n) * widthOf(form.result);
    return {out.data(), out.data() + bytes};
  }
};

void expectBitsOfPanels(const Form &form, int64_t n, int64_t k) {
  Problem problem(form, n, k);
  for (const VariantTable *level : levels()) {
    if (level == &v4amx::table && form.operands == dtc_bf16)
      continue;
    for (int64_t m : {1, 2, 3, 5, 8}) {
      std::vector<std::byte> expected = problem.run(level, Problem::manyRows, m);
      for (int64_t parts : {1, 3})
        ASSERT_EQ(problem.run(level, m, m, parts), expected)
            << levelName(level) << ": " << m << "x" << n << "x" << k << " of " << form.operands << " to " << form.result
            << (form.transposeA ? " aT" : "") << (form.transposeB ? " bT" : "") << (form.accumulate ? " +=" : "")
            << " padding " << form.padding << " in " << parts;
    }
  }
}

class ThinProduct : public testing::TestWithParam<std::tuple<dtc_element, bool, bool>> {
protected:
  /// Calls expect(form) for both layouts of A, with and without adding, rows close together and not.
  template <class Expect> void forEachForm(Expect expect) const {
    auto [operands, isWide, transposeB] = GetParam();
    for (int bits = 0; bits < 4; ++bits)
      for (int64_t padding : {0, 1, 2})
        expect(Form{operands, isWide ? dtc_f32 : operands, (bits & 1) != 0, transposeB, (bits & 2) != 0, padding});
  }
};

TEST_P(ThinProduct, HasTheBitsOfPanels) {
  for (auto [n, k] : {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {16, 16}, {33, 32}, {100, 77}, {64, 200}})
    forEachForm([&, n = n, k = k](const Form &form) { expectBitsOfPanels(form, n, k); });
}

TEST_P(ThinProduct, HasTheBitsOfPanelsInSeveralBlocksAndParts) {
  // Blocks of the depth, the last one shorter; parts of the columns.
  auto [operands, isWide, transposeB] = GetParam();
  for (auto [n, k] : {std::pair<int64_t, int64_t>{35, 769}, {67, 1601}, {4500, 19}})
    for (bool accumulate : {false, true})
      expectBitsOfPanels({operands, isWide ? dtc_f32 : operands, false, transposeB, accumulate, 1}, n, k);
}

TEST_P(ThinProduct, AnEmptySumIsZeroOrLeavesTheResult) {
  forEachForm([](const Form &form) { expectBitsOfPanels(form, 20, 0); });
}

std::string nameOf(const testing::TestParamInfo<std::tuple<dtc_element, bool, bool>> &info) {
  auto [operands, isWide, transposeB] = info.param;
  std::string name = operands == dtc_f32 ? "f32" : operands == dtc_bf16 ? "bf16" : "f16";
  return name + (isWide ? "_to_f32" : "") + (transposeB ? "_columns" : "_rows");
}

INSTANTIATE_TEST_SUITE_P(Types, ThinProduct,
                         testing::Values(std::tuple(dtc_f32, true, false), std::tuple(dtc_f32, true, true),
                                         std::tuple(dtc_bf16, true, false), std::tuple(dtc_bf16, true, true),
                                         std::tuple(dtc_bf16, false, false), std::tuple(dtc_bf16, false, true),
                                         std::tuple(dtc_f16, true, false), std::tuple(dtc_f16, true, true),
                                         std::tuple(dtc_f16, false, false), std::tuple(dtc_f16, false, true)),
                         nameOf);

} // namespace
} // namespace dtc::kernels::test
