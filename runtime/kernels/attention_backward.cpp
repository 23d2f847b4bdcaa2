#include "runtime/kernels/attention.h"
#include "runtime/kernels/variant.h"

#include <math.h>

namespace dtc::kernels::DTC_KERNEL_LEVEL {
namespace {

float dot(const float *a, const float *b, int64_t n) {
  Vec total = splat(0.0f);
  for (int64_t i = 0; i < n; i += lanes) {
    Mask mask = firstLanes(smaller(lanes, n - i));
    total = fma(load(a + i, mask), load(b + i, mask), total);
  }
  return sum(total);
}

void addScaled(float factor, const float *a, float *out, int64_t n) {
  for (int64_t i = 0; i < n; i += lanes) {
    Mask mask = firstLanes(smaller(lanes, n - i));
    store(out + i, fma(splat(factor), load(a + i, mask), load(out + i, mask)), mask);
  }
}

void clear(float *rows, int64_t count, int64_t stride, int64_t width) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t e = 0; e < width; ++e)
      rows[i * stride + e] = 0;
}

} // namespace

void attentionBackward(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  AttentionArgs args(buffers, scalars);
  const int64_t *dOutStrides = scalars + 30, *dqStrides = scalars + 34, *dkStrides = scalars + 38,
                *dvStrides = scalars + 41;
  for (int64_t at = begin; at < end; ++at) {
    int64_t g = at % args.groups, b = at / args.groups;
    const float *k = static_cast<const float *>(buffers[1]) + b * args.kStrides[0] + g * args.kStrides[2];
    const float *v = static_cast<const float *>(buffers[2]) + b * args.vStrides[0] + g * args.vStrides[2];
    float *dk = static_cast<float *>(buffers[10]) + b * dkStrides[0] + g * dkStrides[2];
    float *dv = static_cast<float *>(buffers[11]) + b * dvStrides[0] + g * dvStrides[2];
    clear(dk, args.keys, dkStrides[1], args.width);
    clear(dv, args.keys, dvStrides[1], args.width);
    for (int64_t r = 0; r < args.repeats; ++r) {
      const float *q =
          static_cast<const float *>(buffers[0]) + b * args.qStrides[0] + g * args.qStrides[2] + r * args.qStrides[3];
      const float *out = static_cast<const float *>(buffers[6]) + b * args.outStrides[0] + g * args.outStrides[2] +
                         r * args.outStrides[3];
      const float *lse = static_cast<const float *>(buffers[7]) + (at * args.repeats + r) * args.queries;
      const float *dOut =
          static_cast<const float *>(buffers[8]) + b * dOutStrides[0] + g * dOutStrides[2] + r * dOutStrides[3];
      float *dq = static_cast<float *>(buffers[9]) + b * dqStrides[0] + g * dqStrides[2] + r * dqStrides[3];
      HeadDropout dropout(args, b, g, r);
      clear(dq, args.queries, dqStrides[1], args.width);
      for (int64_t s = 0; s < args.queries; ++s) {
        const float *dOutRow = dOut + s * dOutStrides[1], *qRow = q + s * args.qStrides[1];
        float delta = dot(dOutRow, out + s * args.outStrides[1], args.width);
        for (int64_t t = 0; t < args.keys; ++t) {
          if (!args.sees(s, t))
            continue;
          const float *kRow = k + t * args.kStrides[1];
          float p = expf(args.scale * dot(qRow, kRow, args.width) - lse[s]);
          float factor = dropout.active ? dropout.factor(args.qPositions[s], args.kPositions[t]) : 1.0f;
          addScaled(p * factor, dOutRow, dv + t * dvStrides[1], args.width);
          float dProbability = factor * dot(dOutRow, v + t * args.vStrides[1], args.width);
          float dScore = args.scale * p * (dProbability - delta);
          addScaled(dScore, kRow, dq + s * dqStrides[1], args.width);
          addScaled(dScore, qRow, dk + t * dkStrides[1], args.width);
        }
      }
    }
  }
}

} // namespace dtc::kernels::DTC_KERNEL_LEVEL
