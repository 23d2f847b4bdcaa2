// Attention row by row. Nothing here is clever: it is what kernels and partitionings are compared with.
#include "dialect/reference/AttentionRows.h"

#include <algorithm>
#include <cmath>
#include <vector>

using namespace mlir::dt;

/// Four partial sums, so that the compiler can use vectors without reordering anything itself.
static double dot(const double *a, const double *b, int64_t size) {
  double sums[4] = {0, 0, 0, 0};
  int64_t i = 0;
  for (; i + 4 <= size; i += 4)
    for (int64_t j = 0; j < 4; ++j)
      sums[j] += a[i + j] * b[i + j];
  for (; i < size; ++i)
    sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static void addScaled(double *to, double factor, const double *from, int64_t size) {
  for (int64_t i = 0; i < size; ++i)
    to[i] += factor * from[i];
}

void AttentionRows::scoreRow(const double *q, Input k, int64_t b, int64_t g, int64_t query, double *scores) const {
  double position = qPositions[query];
  for (int64_t t = 0; t < keys; ++t) {
    bool hidden = causal && kPositions[t] > position;
    bool undefined = causal && (std::isnan(position) || std::isnan(kPositions[t]));
    scores[t] = undefined ? NAN : hidden ? -INFINITY : scale * dot(q, k.row(b, t, g), width);
  }
}

double AttentionRows::dropoutFactor(int64_t b, int64_t g, int64_t r, int64_t query, int64_t key) const {
  if (dropout == 0)
    return 1;
  int64_t head = ((int64_t(key2) + firstSample + b) * allGroups + firstGroup + g) * allRepeats + firstRepeat + r;
  int64_t index = (head * length + int64_t(qPositions[query])) * length + int64_t(kPositions[key]);
  return dtc::random::uniform(stream, uint64_t(index)) < dropout ? 0 : 1 / (1 - dropout);
}

void AttentionRows::forward(Input q, Input k, Input v, Output out, double *lse) const {
  std::vector<double> scores(keys);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t r = 0; r < repeats; ++r)
        for (int64_t s = 0; s < queries; ++s) {
          scoreRow(q.row(b, s, g, r), k, b, g, s, scores.data());
          double largest = -INFINITY, sum = 0;
          for (double score : scores)
            largest = std::isnan(score) || score > largest ? score : largest;
          for (double score : scores)
            sum += largest == -INFINITY ? 0 : std::exp(score - largest); // nothing visible: no probability
          double rowLse = largest + std::log(sum);
          *lse++ = rowLse;

          double *row = out.row(b, s, g, r);
          std::fill_n(row, width, 0.0);
          for (int64_t t = 0; t < keys; ++t)
            if (scores[t] != -INFINITY)
              addScaled(row, std::exp(scores[t] - rowLse) * dropoutFactor(b, g, r, s, t), v.row(b, t, g), width);
        }
}

void AttentionRows::backward(Input q, Input k, Input v, Input out, const double *lse, Input dOut, Output dq, Output dk,
                             Output dv) const {
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < keys; ++t)
      for (int64_t g = 0; g < groups; ++g) {
        std::fill_n(dk.row(b, t, g), width, 0.0);
        std::fill_n(dv.row(b, t, g), width, 0.0);
      }
  std::vector<double> scores(keys);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t r = 0; r < repeats; ++r)
        for (int64_t s = 0; s < queries; ++s, ++lse) {
          const double *qRow = q.row(b, s, g, r), *dOutRow = dOut.row(b, s, g, r);
          double *dqRow = dq.row(b, s, g, r);
          scoreRow(qRow, k, b, g, s, scores.data());
          double delta = dot(dOutRow, out.row(b, s, g, r), width);
          std::fill_n(dqRow, width, 0.0);
          for (int64_t t = 0; t < keys; ++t) {
            if (scores[t] == -INFINITY)
              continue;
            double p = std::exp(scores[t] - *lse), factor = dropoutFactor(b, g, r, s, t);
            addScaled(dv.row(b, t, g), p * factor, dOutRow, width);
            double dScore = scale * p * (factor * dot(dOutRow, v.row(b, t, g), width) - delta);
            addScaled(dqRow, dScore, k.row(b, t, g), width);
            addScaled(dk.row(b, t, g), dScore, qRow, width);
          }
        }
}
