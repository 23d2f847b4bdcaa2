// Attention with online softmax, and its gradient; the score matrix is never stored.
//
// A key is visible to a query unless its position is above the query's where attention is causal, is not above the
// query's minus the window where there is one, or is below the query's start where there are starts. The dropout draw
// of an element has index
//   (((sample * allGroups + g) * allRepeats + r) * length + q_position) * length + k_position
// with sample = key[2] + firstSample + b, and g and r counted over all ranks; kept probabilities are divided by 1 - p
// after normalisation; lse ignores dropout.
//
// q, k, v, out and their gradients may be strided views with unit stride in E, of one type; lse is dense and f32.
// grid: B * G * R forward, B * G of the gradient.
#pragma once

#include "runtime/abi/library/table.h"

namespace dtc::abi::library {

/// Strides of a tensor [B, S, G, R, E].
struct QueryStrides {
  int64_t b, s, g, r;
};

/// Strides of a tensor [B, T, G, E].
struct KeyStrides {
  int64_t b, t, g;
};

/// Values of AttentionScalars::causal besides 0, which masks nothing. By position: a key whose position is above the
/// query's is masked. By index: S is T, and that is key index > query index.
inline constexpr int64_t causalByPosition = 1, causalByIndex = 2;

struct AttentionScalars {
  int64_t B, S, T, G, R, E; ///< batch, queries, keys, heads of keys, heads of queries for each, elements of a head
  QueryStrides q;
  KeyStrides k, v;
  QueryStrides out;
  double scale;   ///< of scores
  int64_t causal; ///< 0, causalByPosition or causalByIndex
  double dropout; ///< its probability p
  int64_t site;
  int64_t firstSample, firstGroup, firstRepeat; ///< of this rank
  int64_t allGroups, allRepeats;                ///< G and R over all ranks
  int64_t length;                               ///< of the whole sequence
  int64_t element;                              ///< of q, k, v, out and their gradients
  int64_t window;                               ///< 0: none
  double softcap;                               ///< c: scaled scores s become c tanh(s / c); 0: none
  int64_t starts;                               ///< 1 where a buffer of starts stands behind the key, else 0

  [[gnu::always_inline]] constexpr int64_t grid() const { return B * G * R; }
};

/// Of the gradient, which overwrites d_q, d_k and d_v.
struct AttentionBackwardScalars : AttentionScalars {
  QueryStrides dOut, dQ;
  KeyStrides dK, dV;

  [[gnu::always_inline]] constexpr int64_t grid() const { return B * G; }
};

/// Why cuDNN's fused attention never does this, whatever the strides (runtime/kernels/cuda/attention.h); null: it may.
constexpr const char *whyNotFused(const AttentionScalars &scalars) {
  constexpr int64_t mostWidth = 128;
  if (scalars.element != dtc_bf16 && scalars.element != dtc_f16)
    return "elements are not bf16 or f16";
  if (scalars.dropout > 0)
    return "there is dropout, whose masks are dtc's";
  if (scalars.causal == causalByPosition || (scalars.causal != 0 && scalars.S != scalars.T))
    return "which keys a query sees is not known by their indices";
  if (scalars.window != 0 || scalars.softcap != 0 || scalars.starts != 0)
    return "there is a window, a soft cap or separate documents";
  if (scalars.E % 8 != 0 || scalars.E > mostWidth)
    return "heads are not of a multiple of 8 elements, 128 at most";
  if (scalars.B < 1 || scalars.S < 2 || scalars.T < 2 || scalars.G < 1 || scalars.R < 1)
    return "there are less than two queries or keys";
  return nullptr;
}

namespace detail {

inline constexpr std::array attentionFields = {
    DTC_SCALAR(AttentionScalars, B),           DTC_SCALAR(AttentionScalars, S),
    DTC_SCALAR(AttentionScalars, T),           DTC_SCALAR(AttentionScalars, G),
    DTC_SCALAR(AttentionScalars, R),           DTC_SCALAR(AttentionScalars, E),
    DTC_SCALAR(AttentionScalars, q.b),         DTC_SCALAR(AttentionScalars, q.s),
    DTC_SCALAR(AttentionScalars, q.g),         DTC_SCALAR(AttentionScalars, q.r),
    DTC_SCALAR(AttentionScalars, k.b),         DTC_SCALAR(AttentionScalars, k.t),
    DTC_SCALAR(AttentionScalars, k.g),         DTC_SCALAR(AttentionScalars, v.b),
    DTC_SCALAR(AttentionScalars, v.t),         DTC_SCALAR(AttentionScalars, v.g),
    DTC_SCALAR(AttentionScalars, out.b),       DTC_SCALAR(AttentionScalars, out.s),
    DTC_SCALAR(AttentionScalars, out.g),       DTC_SCALAR(AttentionScalars, out.r),
    DTC_SCALAR(AttentionScalars, scale),       DTC_SCALAR(AttentionScalars, causal),
    DTC_SCALAR(AttentionScalars, dropout),     DTC_SCALAR(AttentionScalars, site),
    DTC_SCALAR(AttentionScalars, firstSample), DTC_SCALAR(AttentionScalars, firstGroup),
    DTC_SCALAR(AttentionScalars, firstRepeat), DTC_SCALAR(AttentionScalars, allGroups),
    DTC_SCALAR(AttentionScalars, allRepeats),  DTC_SCALAR(AttentionScalars, length),
    DTC_SCALAR(AttentionScalars, element),     DTC_SCALAR(AttentionScalars, window),
    DTC_SCALAR(AttentionScalars, softcap),     DTC_SCALAR(AttentionScalars, starts),
};
static_assert(describes<AttentionScalars>(attentionFields));

inline constexpr auto attentionBackwardFields =
    joined(attentionFields, std::array{
                                DTC_SCALAR(AttentionBackwardScalars, dOut.b),
                                DTC_SCALAR(AttentionBackwardScalars, dOut.s),
                                DTC_SCALAR(AttentionBackwardScalars, dOut.g),
                                DTC_SCALAR(AttentionBackwardScalars, dOut.r),
                                DTC_SCALAR(AttentionBackwardScalars, dQ.b),
                                DTC_SCALAR(AttentionBackwardScalars, dQ.s),
                                DTC_SCALAR(AttentionBackwardScalars, dQ.g),
                                DTC_SCALAR(AttentionBackwardScalars, dQ.r),
                                DTC_SCALAR(AttentionBackwardScalars, dK.b),
                                DTC_SCALAR(AttentionBackwardScalars, dK.t),
                                DTC_SCALAR(AttentionBackwardScalars, dK.g),
                                DTC_SCALAR(AttentionBackwardScalars, dV.b),
                                DTC_SCALAR(AttentionBackwardScalars, dV.t),
                                DTC_SCALAR(AttentionBackwardScalars, dV.g),
                            });
static_assert(describes<AttentionBackwardScalars>(attentionBackwardFields));

inline constexpr ElementRule attentionData = toldBy(&AttentionScalars::element);

inline constexpr Operand attentionForwardOperands[] = {
    {"q", "B S G R E", attentionData, Access::Read},
    {"k", "B T G E", attentionData, Access::Read},
    {"v", "B T G E", attentionData, Access::Read},
    {"q_positions", "S", i32, Access::Read},
    {"k_positions", "T", i32, Access::Read},
    {"key", "4", i32, Access::Read}, // seed, step, sample offset, 0
    {"starts", "B S", i32, Access::Read, isSet<&AttentionScalars::starts>},
    {"out", "B S G R E", attentionData, Access::Written},
    // The natural logarithm of the sum of exponentials of the scaled scores.
    {"lse", "B G R S", f32, Access::Written},
};

inline constexpr Operand attentionBackwardOperands[] = {
    {"q", "B S G R E", attentionData, Access::Read},
    {"k", "B T G E", attentionData, Access::Read},
    {"v", "B T G E", attentionData, Access::Read},
    {"q_positions", "S", i32, Access::Read},
    {"k_positions", "T", i32, Access::Read},
    {"key", "4", i32, Access::Read},
    {"starts", "B S", i32, Access::Read, isSet<&AttentionScalars::starts>},
    {"out", "B S G R E", attentionData, Access::Read},
    {"lse", "B G R S", f32, Access::Read},
    {"d_out", "B S G R E", attentionData, Access::Read},
    {"d_q", "B S G R E", attentionData, Access::Written},
    {"d_k", "B T G E", attentionData, Access::Written},
    {"d_v", "B T G E", attentionData, Access::Written},
};

} // namespace detail

template <>
inline constexpr KernelTable tableOf<AttentionScalars> = {"attention_forward", detail::attentionFields,
                                                          detail::attentionForwardOperands};
template <>
inline constexpr KernelTable tableOf<AttentionBackwardScalars> = {"attention_backward", detail::attentionBackwardFields,
                                                                  detail::attentionBackwardOperands};

} // namespace dtc::abi::library
