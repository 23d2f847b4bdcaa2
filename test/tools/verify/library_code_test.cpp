// The library kernels against their meaning, on poisoned memory: random sizes with every kind of tail, strides, types
// and flags, in place and not, grids cut in one to four parts, for each level of processor that this machine can run.
#include "tools/verify/LibraryCode.h"

#include "test/runtime/kernels/support.h"
#include "test/tools/verify/random_kernels.h"

#include <gtest/gtest.h>

namespace dtc::verify {
namespace {

using kernels::test::real;

bool coin(Random &random) { return random.below(2) == 1; }

/// A size of the kind 16k + {0, 1, 2, 15}, at least 1.
int64_t drawSize(Random &random, int64_t sixteens) {
  constexpr int64_t tails[] = {0, 1, 2, 15};
  return std::max<int64_t>(1, 16 * random.below(sixteens) + random.of(tails));
}

/// One launch of a kernel.
struct Case {
  std::string symbol;
  std::vector<abi::DataType> types;
  LibraryCall call;
  std::vector<int> inPlace = {}; ///< for each buffer
};

constexpr abi::DataType floating[] = {abi::F32, abi::BF16, abi::F16};

Case gemm(Random &random) {
  abi::DataType operands = random.of(floating), result = coin(random) ? operands : abi::F32;
  int64_t batch = 1 + random.below(3), m = drawSize(random, 5), n = drawSize(random, 8),
          k = drawSize(random, random.below(8) ? 6 : 120);
  int64_t transposeA = coin(random), transposeB = coin(random), padding = random.below(4);
  int64_t lda = (transposeA ? m : k) + padding, ldb = (transposeB ? k : n) + padding, ldc = n + padding;
  int64_t strideA = lda * (transposeA ? k : m) + padding, strideB = ldb * (transposeB ? n : k) + padding;
  int64_t splitsColumns = coin(random);
  return {"dtc_gemm",
          {operands, operands, result},
          {{batch, m, n, k, transposeA, transposeB, lda, ldb, ldc, strideA, strideB, ldc * m + padding, coin(random),
            splitsColumns, operands, result},
           batch * (splitsColumns ? n : m)}};
}

/// Strides of [batch, sequence, group, repeat] or of keys, rows of heads or of positions first, with gaps.
void appendStrides(std::vector<int64_t> &scalars, Random &random, int64_t sequence, bool isKeys) {
  int64_t groups = scalars[3], repeats = isKeys ? 1 : scalars[4], row = scalars[5] + random.below(4);
  bool areHeadsFirst = coin(random);
  int64_t r = areHeadsFirst ? row * sequence : row, g = r * repeats;
  int64_t s = areHeadsFirst ? row : g * groups, b = random.below(5) + (areHeadsFirst ? g * groups : s * sequence);
  scalars.insert(scalars.end(), {b, s, g});
  if (!isKeys)
    scalars.push_back(r);
}

Case attention(Random &random, bool isBackward) {
  abi::DataType type = random.of(floating);
  int64_t causal = random.below(3), queries = drawSize(random, 6), keys = causal == 2 ? queries : drawSize(random, 6);
  int64_t groups = 1 + random.below(2), repeats = 1 + random.below(3), width = drawSize(random, 5);
  std::vector<int64_t> scalars = {1 + random.below(2), queries, keys, groups, repeats, width};
  appendStrides(scalars, random, queries, false);
  appendStrides(scalars, random, keys, true);
  appendStrides(scalars, random, keys, true);
  appendStrides(scalars, random, queries, false);
  double dropout = coin(random) ? 0.25 : 0;
  int64_t firstGroup = random.below(3), firstRepeat = random.below(2);
  scalars.insert(scalars.end(),
                 {real(0.7 / std::sqrt(double(width))), causal, real(dropout), random.below(100), random.below(9),
                  firstGroup, firstRepeat, firstGroup + groups, firstRepeat + repeats, 2 * std::max(queries, keys) + 9,
                  type, causal && coin(random) ? 1 + random.below(queries + 2) : 0, real(coin(random) ? 1.5 : 0),
                  coin(random)});
  bool hasStarts = scalars.back() != 0;
  int64_t grid = scalars[0] * groups * (isBackward ? 1 : repeats);
  std::vector<abi::DataType> types = {type, type, type, abi::I32, abi::I32, abi::I32};
  types.insert(types.end(), hasStarts ? 1 : 0, abi::I32);
  types.insert(types.end(), {type, abi::F32});
  if (isBackward) {
    appendStrides(scalars, random, queries, false);
    appendStrides(scalars, random, queries, false);
    appendStrides(scalars, random, keys, true);
    appendStrides(scalars, random, keys, true);
    types.insert(types.end(), 4, type);
  }
  return {isBackward ? "dtc_attention_backward" : "dtc_attention_forward", types, {scalars, grid}};
}

Case attentionForward(Random &random) { return attention(random, false); }
Case attentionBackward(Random &random) { return attention(random, true); }

Case rotary(Random &random) {
  abi::DataType type = random.of(floating);
  int64_t outer = 1 + random.below(3), length = 1 + random.below(12), inner = 1 + random.below(4);
  int64_t width = 2 * drawSize(random, 4), pairs = coin(random) ? width / 2 : 1 + random.below(width / 2),
          row = width + random.below(3), position = row * inner;
  bool isInPlace = coin(random);
  int64_t gap = isInPlace ? 0 : random.below(4);
  return {"dtc_rotary",
          {type, abi::I32, type},
          {{outer, length, inner, width, real(10000), coin(random) ? 1 : -1, position * length, position, row,
            (position + gap) * length, position + gap, row, type, pairs, real(coin(random) ? 8 : 1), real(430),
            real(coin(random) ? 0.1 : 0), real(-0.3), real(coin(random) ? 1.1 : 1)},
           outer * length},
          {-1, -1, isInPlace ? 0 : -1}};
}

Case gather(Random &random) {
  constexpr abi::DataType any[] = {abi::F32, abi::BF16, abi::F16, abi::I8, abi::MASK};
  abi::DataType type = random.of(any);
  int64_t count = drawSize(random, 3);
  return {"dtc_gather",
          {type, abi::I32, type},
          {{1 + random.below(40), drawSize(random, 8), random.below(50), abi::elementType(type).bytes}, count}};
}

Case scatterAdd(Random &random) {
  int64_t width = drawSize(random, 8);
  return {"dtc_scatter_add",
          {abi::F32, abi::I32, abi::F32},
          {{1 + random.below(40), width, random.below(50), drawSize(random, 6)}, width}};
}

/// Rows of a view, some of which have no place.
Case writeRows(Random &random) {
  constexpr abi::DataType any[] = {abi::F32, abi::BF16, abi::F16};
  abi::DataType type = random.of(any);
  int64_t outer = 1 + random.below(3), count = 1 + random.below(20), inner = 1 + random.below(4);
  int64_t width = drawSize(random, 8), gap = random.below(3), row = width + gap, position = inner * row;
  return {"dtc_write_rows",
          {type, abi::I32, type},
          {{outer, count, inner, width, 1 + random.below(40), count * position, position, row,
            abi::elementType(type).bytes},
           outer * count}};
}

/// Any order of dimensions on either side, and often a source that ends early.
Case copy(Random &random) {
  abi::DataType type = random.of(floating);
  std::vector<int64_t> scalars(24);
  for (int dim = 0; dim < 6; ++dim)
    scalars[dim] = dim == 5 ? drawSize(random, 4) : coin(random) ? 1 : 1 + random.below(5);
  for (int first : {6, 12}) {
    std::vector<int> order = {0, 1, 2, 3, 4, 5};
    if (coin(random))
      for (int i = 5; i > 0; --i)
        std::swap(order[i], order[random.below(i + 1)]);
    int64_t stride = 1;
    for (int i = 5; i >= 0; --i) {
      scalars[first + order[i]] = stride;
      stride = stride * scalars[order[i]] + random.below(3);
    }
  }
  scalars[18] = random.below(9), scalars[19] = random.below(9), scalars[20] = INT64_MAX;
  if (coin(random)) {
    scalars[21] = random.below(6), scalars[22] = random.below(5);
    scalars[20] = scalars[22] - 1 + random.below(scalars[scalars[21]] + 2);
  }
  scalars[23] = abi::elementType(type).bytes;
  return {"dtc_copy", {type, type}, {scalars, scalars[0] * scalars[1]}};
}

Case fill(Random &random) {
  struct Pattern {
    abi::DataType type;
    int64_t bits;
  };
  constexpr Pattern patterns[] = {{abi::F32, 0x3fc00000}, {abi::BF16, 0xbfc0}, {abi::F16, 0x3e00}, {abi::I8, 0x7f}};
  Pattern pattern = random.of(patterns);
  return {"dtc_fill", {pattern.type}, {{pattern.bits, abi::elementType(pattern.type).bytes}, drawSize(random, 30)}};
}

/// A kernel at each level that this machine can run, or the one implementation for all.
std::vector<dtc_kernel_fn> codeOf(const std::string &symbol) {
  std::vector<dtc_kernel_fn> all;
  for (const kernels::VariantTable *level : kernels::test::levels()) {
    if (symbol == "dtc_gemm")
      all.push_back(level->gemm);
    else if (symbol == "dtc_attention_forward")
      all.push_back(level->attentionForward);
    else if (symbol == "dtc_attention_backward")
      all.push_back(level->attentionBackward);
    else if (symbol == "dtc_rotary")
      all.push_back(level->rotary);
  }
  return all.empty() ? std::vector{kernels::find(symbol)} : all;
}

struct Kernel {
  const char *symbol;
  Case (*draw)(Random &);
};

void PrintTo(const Kernel &each, std::ostream *out) { *out << each.symbol; }

class RandomLaunches : public testing::TestWithParam<Kernel> {};

TEST_P(RandomLaunches, DoWhatTheyMeanAndNothingElse) {
  auto [symbol, draw] = GetParam();
  Random random(11);
  constexpr int launches = 150;
  int64_t compared = 0;
  for (int i = 0; i < launches; ++i) {
    Case each = draw(random);
    for (dtc_kernel_fn function : codeOf(symbol)) {
      LibraryCode code(each.symbol, each.types, each.call, function);
      CodeResult result = code.run({each.inPlace, int(1 + random.below(4)), unsigned(i)});
      ASSERT_EQ(result.failure, "") << symbol;
      compared += result.compared;
    }
  }
  EXPECT_GT(compared, 10 * launches);
}

INSTANTIATE_TEST_SUITE_P(LibraryCode, RandomLaunches,
                         testing::Values(Kernel{"dtc_gemm", gemm}, Kernel{"dtc_attention_forward", attentionForward},
                                         Kernel{"dtc_attention_backward", attentionBackward},
                                         Kernel{"dtc_rotary", rotary}, Kernel{"dtc_gather", gather},
                                         Kernel{"dtc_scatter_add", scatterAdd}, Kernel{"dtc_write_rows", writeRows},
                                         Kernel{"dtc_copy", copy}, Kernel{"dtc_fill", fill}),
                         [](const auto &info) { return std::string(info.param.symbol); });

} // namespace
} // namespace dtc::verify
