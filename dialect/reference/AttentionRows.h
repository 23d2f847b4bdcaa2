// Attention on strided memory, one query row at a time: what dt.attention's reference semantics and the reference for
// the attention kernels (which run on strided views of an arena) share. Nothing here is clever: it is what kernels and
// partitionings are compared with. Numbers are f64, or f64 with a bound on how far code in f32 may be off.
#pragma once

#include "runtime/abi/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace mlir::dt {

/// The value of a number, which may carry more than its value.
inline double valueOf(double number) { return number; }

/// Sizes, masks and dropout of one attention; the fields are the scalars of dtc_attention_forward in
/// runtime/abi/library/attention.h, which states the index of a dropout draw.
template <class Number> struct AttentionRowsOf {
  int64_t batch, queries, keys, groups, repeats, width;
  int64_t firstSample, firstGroup, firstRepeat, allGroups, allRepeats, length;
  double scale, dropout;
  double softcap = 0; ///< 0: none
  int64_t window = 0; ///< 0: none
  bool causal;
  const Number *qPositions, *kPositions;
  const Number *starts = nullptr; ///< [batch, queries], or null
  int64_t key2;                   ///< the third word of the key: the first sample of this micro-batch
  uint32_t stream;                ///< of key and site

  /// Strides of [batch, sequence, group, repeat]; keys and values have no fourth. Elements are contiguous.
  using Strides = std::array<int64_t, 4>;
  template <class Element> struct View {
    Element *data;
    Strides strides;
    Element *row(int64_t b, int64_t s, int64_t g, int64_t r = 0) const {
      return data + b * strides[0] + s * strides[1] + g * strides[2] + r * strides[3];
    }
  };
  using Input = View<const Number>;
  using Output = View<Number>;

  /// Writes out and lse [batch, group, repeat, query], dense.
  void forward(Input q, Input k, Input v, Output out, Number *lse) const;

  /// Writes the gradients dq, dk and dv, which recompute the probabilities from lse.
  void backward(Input q, Input k, Input v, Input out, const Number *lse, Input dOut, Output dq, Output dk,
                Output dv) const;

private:
  /// Four partial sums, so that the compiler can use vectors without reordering anything itself.
  static Number dot(const Number *a, const Number *b, int64_t size);
  static void addScaled(Number *to, Number factor, const Number *from, int64_t size);
  /// scale q·k for each key, soft-capped, -infinity where the mask hides it; NaN where a position is undefined.
  void scoreRow(const Number *q, Input k, int64_t b, int64_t g, int64_t query, Number *scores) const;
  /// What the probability of a pair is multiplied by.
  double dropoutFactor(int64_t b, int64_t g, int64_t r, int64_t query, int64_t key) const;
};

using AttentionRows = AttentionRowsOf<double>;

template <class Number> Number AttentionRowsOf<Number>::dot(const Number *a, const Number *b, int64_t size) {
  Number sums[4] = {0, 0, 0, 0};
  int64_t i = 0;
  for (; i + 4 <= size; i += 4)
    for (int64_t j = 0; j < 4; ++j)
      sums[j] += a[i + j] * b[i + j];
  for (; i < size; ++i)
    sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <class Number>
void AttentionRowsOf<Number>::addScaled(Number *to, Number factor, const Number *from, int64_t size) {
  for (int64_t i = 0; i < size; ++i)
    to[i] += factor * from[i];
}

template <class Number>
void AttentionRowsOf<Number>::scoreRow(const Number *q, Input k, int64_t b, int64_t g, int64_t query,
                                       Number *scores) const {
  using std::tanh;
  double position = valueOf(qPositions[query]), start = starts ? valueOf(starts[b * queries + query]) : -INFINITY;
  for (int64_t t = 0; t < keys; ++t) {
    double keyPosition = valueOf(kPositions[t]);
    bool hidden = keyPosition < start ||
                  (causal && (keyPosition > position || (window != 0 && keyPosition <= position - double(window))));
    bool undefined = std::isnan(start) || (causal && (std::isnan(position) || std::isnan(keyPosition)));
    if (undefined || hidden) {
      scores[t] = undefined ? NAN : -INFINITY;
      continue;
    }
    scores[t] = scale * dot(q, k.row(b, t, g), width);
    if (softcap != 0)
      scores[t] = softcap * tanh((1 / softcap) * scores[t]);
  }
}

template <class Number>
double AttentionRowsOf<Number>::dropoutFactor(int64_t b, int64_t g, int64_t r, int64_t query, int64_t key) const {
  if (dropout == 0)
    return 1;
  int64_t head = ((key2 + firstSample + b) * allGroups + firstGroup + g) * allRepeats + firstRepeat + r;
  int64_t index = (head * length + int64_t(valueOf(qPositions[query]))) * length + int64_t(valueOf(kPositions[key]));
  return dtc::random::uniform(stream, uint64_t(index)) < dropout ? 0 : 1 / (1 - dropout);
}

template <class Number>
void AttentionRowsOf<Number>::forward(Input q, Input k, Input v, Output out, Number *lse) const {
  using std::exp, std::log;
  std::vector<Number> scores(keys);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t r = 0; r < repeats; ++r)
        for (int64_t s = 0; s < queries; ++s) {
          scoreRow(q.row(b, s, g, r), k, b, g, s, scores.data());
          Number largest = -INFINITY, sum = 0;
          for (const Number &score : scores)
            largest = std::isnan(valueOf(score)) || valueOf(score) > valueOf(largest) ? score : largest;
          for (const Number &score : scores)
            sum += valueOf(largest) == -INFINITY ? Number(0) : exp(score - largest); // nothing visible: no probability
          Number rowLse = largest + log(sum);
          *lse++ = rowLse;

          Number *row = out.row(b, s, g, r);
          std::fill_n(row, width, Number(0));
          for (int64_t t = 0; t < keys; ++t)
            if (valueOf(scores[t]) != -INFINITY)
              addScaled(row, exp(scores[t] - rowLse) * dropoutFactor(b, g, r, s, t), v.row(b, t, g), width);
        }
}

template <class Number>
void AttentionRowsOf<Number>::backward(Input q, Input k, Input v, Input out, const Number *lse, Input dOut, Output dq,
                                       Output dk, Output dv) const {
  using std::exp;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < keys; ++t)
      for (int64_t g = 0; g < groups; ++g) {
        std::fill_n(dk.row(b, t, g), width, Number(0));
        std::fill_n(dv.row(b, t, g), width, Number(0));
      }
  std::vector<Number> scores(keys);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t r = 0; r < repeats; ++r)
        for (int64_t s = 0; s < queries; ++s, ++lse) {
          const Number *qRow = q.row(b, s, g, r), *dOutRow = dOut.row(b, s, g, r);
          Number *dqRow = dq.row(b, s, g, r);
          scoreRow(qRow, k, b, g, s, scores.data());
          Number delta = dot(dOutRow, out.row(b, s, g, r), width);
          std::fill_n(dqRow, width, Number(0));
          for (int64_t t = 0; t < keys; ++t) {
            if (valueOf(scores[t]) == -INFINITY)
              continue;
            Number p = exp(scores[t] - *lse);
            double factor = dropoutFactor(b, g, r, s, t);
            addScaled(dv.row(b, t, g), p * factor, dOutRow, width);
            Number dScore = scale * p * (factor * dot(dOutRow, v.row(b, t, g), width) - delta);
            if (softcap != 0) {
              Number share = (1 / softcap) * scores[t];
              dScore = dScore * (Number(1) - share * share);
            }
            addScaled(dqRow, dScore, k.row(b, t, g), width);
            addScaled(dk.row(b, t, g), dScore, qRow, width);
          }
        }
}

} // namespace mlir::dt
