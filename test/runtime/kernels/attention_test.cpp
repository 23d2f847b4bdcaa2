// Attention and its gradient against the plain formulas in f64.
#include "test/runtime/kernels/support.h"

#include "runtime/abi/random.h"

#include <limits>

namespace dtc::kernels::test {
namespace {

struct Case {
  const char *name;
  int64_t b, s, t, g, r, e;
  bool causal;
  double dropout;
  int64_t firstQuery, firstKey, step; // positions are first + step * i
  bool fused;                         // q, k, v are views of one [b, s, 3, g, e] tensor
  int64_t window = 0;
  double softcap = 0;
  int64_t document = 0; ///< positions of each, by which rows of the batch are shifted; 0: there are none
};

std::ostream &operator<<(std::ostream &os, const Case &c) { return os << c.name; }

/// A tensor [b, s, heads..., e] inside a buffer with its strides.
struct Strides {
  int64_t b, s, g, r;
};

constexpr int32_t seed = 1234, step = 7, sampleOffset = 5, site = 3, firstSample = 2, firstGroup = 1, firstRepeat = 1,
                  sequence = 4096;

struct Problem {
  Case c;
  Strides q, k, v, out, dOut;
  std::vector<float> qData, kData, vData, dOutData;
  std::vector<int32_t> qPositions, kPositions, key = {seed, step, sampleOffset, 0}, starts;
  int64_t groupsOverAll, repeatsOverAll;

  explicit Problem(Case c) : c(c), groupsOverAll(c.g + 2), repeatsOverAll(c.r + 1) {
    if (c.fused) {
      q = {c.s * 3 * c.g * c.e, 3 * c.g * c.e, c.e, 0};
      k = v = q;
    } else {
      q = {c.s * c.g * c.r * c.e, c.g * c.r * c.e, c.r * c.e, c.e};
      k = v = {c.t * c.g * c.e, c.g * c.e, c.e, 0};
    }
    out = {c.s * c.g * c.r * c.e + 3, c.g * c.r * c.e, c.r * c.e, c.e};
    // Heads before positions.
    dOut = {c.s * c.g * c.r * c.e, c.e, c.s * c.r * c.e, c.s * c.e};
    qData = randomFloats(c.b * q.b, 1);
    kData = randomFloats(c.b * k.b, 2);
    vData = randomFloats(c.b * v.b, 3);
    for (float &x : qData)
      x *= 3;
    dOutData = randomFloats(c.b * dOut.b, 4);
    for (int64_t i = 0; i < c.s; ++i)
      qPositions.push_back(static_cast<int32_t>(c.firstQuery + c.step * i));
    for (int64_t i = 0; i < c.t; ++i)
      kPositions.push_back(static_cast<int32_t>(c.firstKey + c.step * i));
    for (int64_t i = 0; c.document && i < c.b * c.s; ++i)
      starts.push_back(
          std::max(0, static_cast<int32_t>((qPositions[i % c.s] + i / c.s) / c.document * c.document - i / c.s)));
  }

  std::vector<void *> inputs() const {
    std::vector<void *> buffers = {buffer(qData.data()),      buffer(kData.data()),      buffer(vData.data()),
                                   buffer(qPositions.data()), buffer(kPositions.data()), buffer(key.data())};
    if (c.document)
      buffers.push_back(buffer(starts.data()));
    return buffers;
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(c.e)); }
  int64_t rows() const { return c.b * c.g * c.r * c.s; }

  std::vector<int64_t> scalars() const {
    return {c.b,
            c.s,
            c.t,
            c.g,
            c.r,
            c.e,
            q.b,
            q.s,
            q.g,
            q.r,
            k.b,
            k.s,
            k.g,
            v.b,
            v.s,
            v.g,
            out.b,
            out.s,
            out.g,
            out.r,
            real(scale()),
            c.causal,
            real(c.dropout),
            site,
            firstSample,
            firstGroup,
            firstRepeat,
            groupsOverAll,
            repeatsOverAll,
            sequence,
            dtc_f32,
            c.window,
            real(c.softcap),
            c.document != 0};
  }
};

struct Forward {
  std::vector<float> out, lse;
};

Forward runForward(const Problem &p, const VariantTable *level, int64_t parts = 1) {
  Forward result = {std::vector<float>(p.c.b * p.out.b, 77.0f), std::vector<float>(p.rows(), 77.0f)};
  std::vector<void *> buffers = p.inputs();
  buffers.insert(buffers.end(), {result.out.data(), result.lse.data()});
  runInParts(level->attentionForward, buffers, p.scalars(), p.c.b * p.c.g * p.c.r, parts);
  return result;
}

struct Backward {
  std::vector<float> dq, dk, dv;
};

Backward runBackward(const Problem &p, const VariantTable *level, const Forward &forward, int64_t parts = 1) {
  Backward result = {std::vector<float>(p.qData.size()), std::vector<float>(p.kData.size()),
                     std::vector<float>(p.vData.size())};
  std::vector<int64_t> scalars = p.scalars();
  for (int64_t stride :
       {p.dOut.b, p.dOut.s, p.dOut.g, p.dOut.r, p.q.b, p.q.s, p.q.g, p.q.r, p.k.b, p.k.s, p.k.g, p.v.b, p.v.s, p.v.g})
    scalars.push_back(stride);
  std::vector<void *> buffers = p.inputs();
  buffers.insert(buffers.end(), {buffer(forward.out.data()), buffer(forward.lse.data()), buffer(p.dOutData.data()),
                                 result.dq.data(), result.dk.data(), result.dv.data()});
  runInParts(level->attentionBackward, buffers, scalars, p.c.b * p.c.g, parts);
  return result;
}

struct Expected {
  std::vector<double> out, lse, dq, dk, dv;
};

double dropoutFactor(const Problem &p, int64_t b, int64_t g, int64_t r, int64_t s, int64_t t) {
  if (p.c.dropout == 0)
    return 1;
  uint64_t sample = sampleOffset + firstSample + b, group = firstGroup + g, repeat = firstRepeat + r;
  uint64_t index =
      (((sample * p.groupsOverAll + group) * p.repeatsOverAll + repeat) * sequence + p.qPositions[s]) * sequence +
      p.kPositions[t];
  return random::uniform(random::stream(seed, step, site), index) < p.c.dropout ? 0 : 1 / (1 - p.c.dropout);
}

double dot(const float *a, const float *b, int64_t n) {
  double total = 0;
  for (int64_t i = 0; i < n; ++i)
    total += static_cast<double>(a[i]) * b[i];
  return total;
}

/// One row of the score matrix, forward and backward.
void expectRow(const Problem &p, Expected &x, int64_t b, int64_t g, int64_t r, int64_t s) {
  int64_t width = p.c.e;
  int64_t qAt = b * p.q.b + s * p.q.s + g * p.q.g + r * p.q.r;
  int64_t outAt = b * p.out.b + s * p.out.s + g * p.out.g + r * p.out.r;
  int64_t dOutAt = b * p.dOut.b + s * p.dOut.s + g * p.dOut.g + r * p.dOut.r;
  auto kAt = [&](int64_t t) { return b * p.k.b + t * p.k.s + g * p.k.g; };
  auto vAt = [&](int64_t t) { return b * p.v.b + t * p.v.s + g * p.v.g; };
  for (int64_t i = 0; i < width; ++i)
    x.out[outAt + i] = 0;
  std::vector<double> probabilities(p.c.t), slopes(p.c.t, 1.0);
  double total = 0;
  for (int64_t t = 0; t < p.c.t; ++t) {
    int64_t distance = p.qPositions[s] - p.kPositions[t];
    if (p.c.causal && (distance < 0 || (p.c.window && distance >= p.c.window)))
      continue;
    if (p.c.document && p.kPositions[t] < p.starts[b * p.c.s + s])
      continue;
    double score = p.scale() * dot(&p.qData[qAt], &p.kData[kAt(t)], width);
    if (p.c.softcap) {
      double share = std::tanh(score / p.c.softcap);
      score = p.c.softcap * share, slopes[t] = 1 - share * share;
    }
    total += probabilities[t] = std::exp(score);
  }
  x.lse[((b * p.c.g + g) * p.c.r + r) * p.c.s + s] = std::log(total);
  if (total == 0)
    return;
  double delta = 0;
  std::vector<double> dProbabilities(p.c.t);
  for (int64_t t = 0; t < p.c.t; ++t) {
    probabilities[t] /= total;
    double factor = dropoutFactor(p, b, g, r, s, t), kept = probabilities[t] * factor;
    for (int64_t i = 0; i < width; ++i) {
      x.out[outAt + i] += kept * p.vData[vAt(t) + i];
      x.dv[vAt(t) + i] += kept * p.dOutData[dOutAt + i];
    }
    dProbabilities[t] = factor * dot(&p.dOutData[dOutAt], &p.vData[vAt(t)], width);
    delta += probabilities[t] * dProbabilities[t];
  }
  for (int64_t t = 0; t < p.c.t; ++t) {
    double dScore = p.scale() * slopes[t] * probabilities[t] * (dProbabilities[t] - delta);
    for (int64_t i = 0; i < width; ++i) {
      x.dq[qAt + i] += dScore * p.kData[kAt(t) + i];
      x.dk[kAt(t) + i] += dScore * p.qData[qAt + i];
    }
  }
}

Expected expected(const Problem &p) {
  Expected x = {std::vector<double>(p.c.b * p.out.b, 77.0), std::vector<double>(p.rows()),
                std::vector<double>(p.qData.size()), std::vector<double>(p.kData.size()),
                std::vector<double>(p.vData.size())};
  for (int64_t b = 0; b < p.c.b; ++b)
    for (int64_t g = 0; g < p.c.g; ++g)
      for (int64_t r = 0; r < p.c.r; ++r)
        for (int64_t s = 0; s < p.c.s; ++s)
          expectRow(p, x, b, g, r, s);
  return x;
}

class AttentionTest : public testing::TestWithParam<Case> {};

TEST_P(AttentionTest, ForwardAndBackwardAgreeWithF64) {
  Problem problem(GetParam());
  Expected x = expected(problem);
  for (const VariantTable *level : levels()) {
    SCOPED_TRACE(levelName(level));
    Forward forward = runForward(problem, level);
    EXPECT_LT(relativeError(forward.out, x.out), 2e-6);
    for (int64_t i = 0; i < problem.rows(); ++i)
      if (std::isinf(x.lse[i]))
        EXPECT_EQ(forward.lse[i], -std::numeric_limits<float>::infinity());
      else
        EXPECT_NEAR(forward.lse[i], x.lse[i], 1e-5);
    Backward backward = runBackward(problem, level, forward);
    EXPECT_LT(relativeError(backward.dq, x.dq), 5e-6);
    EXPECT_LT(relativeError(backward.dk, x.dk), 5e-6);
    EXPECT_LT(relativeError(backward.dv, x.dv), 5e-6);
  }
}

TEST_P(AttentionTest, DoesNotDependOnHowTheGridIsCut) {
  Problem problem(GetParam());
  for (const VariantTable *level : levels()) {
    SCOPED_TRACE(levelName(level));
    Forward whole = runForward(problem, level), cut = runForward(problem, level, 3);
    EXPECT_EQ(whole.out, cut.out);
    EXPECT_EQ(whole.lse, cut.lse);
    Backward wholeBack = runBackward(problem, level, whole), cutBack = runBackward(problem, level, whole, 2);
    EXPECT_EQ(wholeBack.dq, cutBack.dq);
    EXPECT_EQ(wholeBack.dk, cutBack.dk);
    EXPECT_EQ(wholeBack.dv, cutBack.dv);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionTest,
    testing::Values(Case{"one_token", 1, 1, 1, 1, 1, 8, true, 0, 0, 0, 1, false},
                    Case{"gpt2_heads", 2, 64, 64, 3, 1, 64, true, 0, 0, 0, 1, true},
                    Case{"several_tiles", 1, 200, 200, 2, 1, 64, true, 0, 0, 0, 1, false},
                    Case{"grouped_queries", 2, 37, 37, 2, 3, 16, true, 0, 0, 0, 1, false},
                    Case{"no_mask", 1, 70, 133, 2, 2, 20, false, 0, 0, 0, 1, false},
                    Case{"dropout", 2, 45, 45, 2, 2, 32, true, 0.3, 0, 0, 1, false},
                    Case{"dropout_fused", 1, 100, 100, 2, 1, 64, true, 0.1, 0, 0, 1, true},
                    Case{"later_queries", 1, 33, 140, 1, 2, 24, true, 0.1, 100, 0, 1, false},
                    Case{"some_rows_see_nothing", 1, 70, 70, 1, 2, 16, true, 0, 0, 20, 1, false},
                    Case{"all_rows_see_nothing", 1, 5, 5, 1, 1, 16, true, 0, 0, 100, 1, false},
                    Case{"descending_positions", 1, 150, 150, 1, 1, 16, true, 0.2, 500, 500, -3, false},
                    Case{"wide_heads", 1, 40, 40, 1, 1, 128, true, 0, 0, 0, 1, false},
                    Case{"odd_width", 1, 40, 40, 1, 2, 13, true, 0, 0, 0, 1, false},
                    Case{"window", 1, 200, 200, 1, 2, 16, true, 0, 0, 0, 1, false, 70},
                    Case{"window_of_one", 1, 70, 70, 1, 1, 16, true, 0, 0, 0, 1, false, 1},
                    Case{"window_and_dropout", 2, 90, 90, 2, 1, 24, true, 0.2, 0, 0, 1, true, 33},
                    Case{"window_past_the_keys", 1, 33, 140, 1, 1, 16, true, 0, 300, 0, 1, false, 100},
                    Case{"window_descending", 1, 150, 150, 1, 1, 16, true, 0, 500, 500, -3, false, 50},
                    Case{"documents", 2, 130, 130, 1, 2, 16, true, 0.1, 0, 0, 1, false, 0, 0, 50},
                    Case{"documents_in_windows", 2, 90, 90, 1, 1, 16, true, 0, 0, 0, 1, false, 13, 2, 20},
                    Case{"documents_without_a_mask", 2, 40, 70, 1, 1, 16, false, 0, 0, 0, 1, false, 0, 0, 9},
                    Case{"softcap", 1, 70, 133, 2, 2, 20, false, 0, 0, 0, 1, false, 0, 2},
                    Case{"softcap_and_window", 1, 100, 100, 1, 2, 32, true, 0.1, 0, 0, 1, false, 40, 1.5}),
    [](const auto &info) { return info.param.name; });

TEST(Attention, LargeScoresDoNotOverflow) {
  Problem problem(Case{"large", 1, 64, 64, 1, 1, 16, true, 0, 0, 0, 1, false});
  for (float &x : problem.qData)
    x *= 1000;
  for (const VariantTable *level : levels()) {
    Forward forward = runForward(problem, level);
    for (float value : forward.out)
      EXPECT_TRUE(std::isfinite(value));
  }
}

} // namespace
} // namespace dtc::kernels::test
