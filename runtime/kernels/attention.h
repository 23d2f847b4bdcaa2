// What attention's forward and backward kernels share: their arguments, masks and dropout. Compiled per level.
#pragma once

#include "runtime/abi/random.h"
#include "runtime/kernels/simd.h"

namespace dtc::kernels::DTC_KERNEL_LEVEL {
namespace {

/// The scalars that both directions have in common (kernels.h numbers them).
struct AttentionArgs {
  int64_t batches, queries, keys, groups, repeats, width;
  const int64_t *qStrides, *kStrides, *vStrides, *outStrides;
  float scale;
  bool causal;
  double dropout;
  const int32_t *qPositions, *kPositions, *key;
  int64_t site, firstSample, firstGroup, firstRepeat, allGroups, allRepeats, length;

  AttentionArgs(void *const *buffers, const int64_t *s)
      : batches(s[0]), queries(s[1]), keys(s[2]), groups(s[3]), repeats(s[4]), width(s[5]), qStrides(s + 6),
        kStrides(s + 10), vStrides(s + 13), outStrides(s + 16), scale(static_cast<float>(real(s[20]))),
        causal(s[21] != 0), dropout(real(s[22])), qPositions(static_cast<const int32_t *>(buffers[3])),
        kPositions(static_cast<const int32_t *>(buffers[4])), key(static_cast<const int32_t *>(buffers[5])),
        site(s[23]), firstSample(s[24]), firstGroup(s[25]), firstRepeat(s[26]), allGroups(s[27]), allRepeats(s[28]),
        length(s[29]) {}

  static double real(int64_t bits) { return __builtin_bit_cast(double, bits); }

  bool sees(int64_t query, int64_t at) const { return !causal || kPositions[at] <= qPositions[query]; }
};

/// The dropout draws of one head of one sample.
struct HeadDropout {
  bool active;
  double probability;
  float keptFactor;
  uint32_t stream;
  int64_t head, length;

  HeadDropout(const AttentionArgs &args, int64_t b, int64_t g, int64_t r)
      : active(args.dropout > 0), probability(args.dropout), keptFactor(static_cast<float>(1 / (1 - args.dropout))),
        stream(random::stream(static_cast<uint32_t>(args.key[0]), static_cast<uint32_t>(args.key[1]),
                              static_cast<uint32_t>(args.site))),
        head(((args.key[2] + args.firstSample + b) * args.allGroups + args.firstGroup + g) * args.allRepeats +
             args.firstRepeat + r),
        length(args.length) {}

  /// What the probability of this pair is multiplied by: 0 or 1 / (1 - p).
  float factor(int64_t queryPosition, int64_t keyPosition) const {
    uint64_t index = static_cast<uint64_t>((head * length + queryPosition) * length + keyPosition);
    return random::uniform(stream, index) < probability ? 0.0f : keptFactor;
  }
};

} // namespace
} // namespace dtc::kernels::DTC_KERNEL_LEVEL
