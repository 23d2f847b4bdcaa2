#include "runtime/kernels/attention.h"
#include "runtime/kernels/scratch.h"
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

} // namespace

void attentionForward(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  AttentionArgs args(buffers, scalars);
  float *scores = threadScratch(args.keys);
  for (int64_t at = begin; at < end; ++at) {
    int64_t r = at % args.repeats, g = at / args.repeats % args.groups, b = at / args.repeats / args.groups;
    const float *q =
        static_cast<const float *>(buffers[0]) + b * args.qStrides[0] + g * args.qStrides[2] + r * args.qStrides[3];
    const float *k = static_cast<const float *>(buffers[1]) + b * args.kStrides[0] + g * args.kStrides[2];
    const float *v = static_cast<const float *>(buffers[2]) + b * args.vStrides[0] + g * args.vStrides[2];
    float *out =
        static_cast<float *>(buffers[6]) + b * args.outStrides[0] + g * args.outStrides[2] + r * args.outStrides[3];
    float *lse = static_cast<float *>(buffers[7]) + at * args.queries;
    HeadDropout dropout(args, b, g, r);
    for (int64_t s = 0; s < args.queries; ++s) {
      float top = -INFINITY, total = 0;
      for (int64_t t = 0; t < args.keys; ++t) {
        scores[t] = args.sees(s, t) ? args.scale * dot(q + s * args.qStrides[1], k + t * args.kStrides[1], args.width)
                                    : -INFINITY;
        top = larger(top, scores[t]);
      }
      float *target = out + s * args.outStrides[1];
      for (int64_t e = 0; e < args.width; ++e)
        target[e] = 0;
      lse[s] = -INFINITY;
      if (top == -INFINITY)
        continue;
      for (int64_t t = 0; t < args.keys; ++t)
        total += expf(scores[t] - top);
      lse[s] = top + logf(total);
      for (int64_t t = 0; t < args.keys; ++t)
        if (args.sees(s, t)) {
          float p = expf(scores[t] - lse[s]);
          if (dropout.active)
            p *= dropout.factor(args.qPositions[s], args.kPositions[t]);
          addScaled(p, v + t * args.vStrides[1], target, args.width);
        }
    }
  }
}

} // namespace dtc::kernels::DTC_KERNEL_LEVEL
