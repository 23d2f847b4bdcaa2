// Attention with online softmax, and its gradient. The score matrix is never stored.
//
// A query sees every key except, with causal attention, keys at positions above the query's; with a window, keys at
// positions up to the query's minus the window; and with starts, keys before the query's start. The dropout draw of an
// element has index
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

/// Values of AttentionScalars::causal other than 0, which masks nothing. By position: a key whose position is above the
/// query's is masked. By index: S equals T, and a key whose index is above the query's is masked.
inline constexpr int64_t causalByPosition = 1, causalByIndex = 2;

struct AttentionScalars {
  static constexpr std::string_view kernel = "attention_forward";

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
  int64_t starts;                               ///< 1 if a buffer of starts follows the key, else 0

  [[gnu::always_inline]] constexpr int64_t grid() const { return B * G * R; }

  DTC_SCALARS(B, S, T, G, R, E, q.b, q.s, q.g, q.r, k.b, k.t, k.g, v.b, v.t, v.g, out.b, out.s, out.g, out.r, scale,
              causal, dropout, site, firstSample, firstGroup, firstRepeat, allGroups, allRepeats, length, element,
              window, softcap, starts)
};

/// Scalars of the gradient, which overwrites d_q, d_k and d_v.
struct AttentionBackwardScalars : AttentionScalars {
  static constexpr std::string_view kernel = "attention_backward";

  QueryStrides dOut, dQ;
  KeyStrides dK, dV;

  [[gnu::always_inline]] constexpr int64_t grid() const { return B * G; }

  DTC_MORE_SCALARS(AttentionScalars, dOut.b, dOut.s, dOut.g, dOut.r, dQ.b, dQ.s, dQ.g, dQ.r, dK.b, dK.t, dK.g, dV.b,
                   dV.t, dV.g)
};

/// Why cuDNN's fused attention cannot do this, whatever the strides (runtime/kernels/cuda/attention.h); null if it can.
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

inline constexpr ElementRule attentionData = toldBy(&AttentionScalars::element);

inline constexpr auto attentionInputs = std::to_array<Operand>({
    {"q", "B S G R E", attentionData, Access::Read},
    {"k", "B T G E", attentionData, Access::Read},
    {"v", "B T G E", attentionData, Access::Read},
    {"q_positions", "S", i32, Access::Read},
    {"k_positions", "T", i32, Access::Read},
    {"key", "4", i32, Access::Read}, // seed, step, sample offset, 0
    {"starts", "B S", i32, Access::Read, isSet<&AttentionScalars::starts>},
});

} // namespace detail

template <>
inline constexpr auto operandsOf<AttentionScalars> = detail::joined(
    detail::attentionInputs, std::to_array<Operand>({
                                 {"out", "B S G R E", detail::attentionData, Access::Written},
                                 // The natural logarithm of the sum of exponentials of the scaled scores.
                                 {"lse", "B G R S", f32, Access::Written},
                             }));

template <>
inline constexpr auto operandsOf<AttentionBackwardScalars> =
    detail::joined(detail::attentionInputs, std::to_array<Operand>({
                                                {"out", "B S G R E", detail::attentionData, Access::Read},
                                                {"lse", "B G R S", f32, Access::Read},
                                                {"d_out", "B S G R E", detail::attentionData, Access::Read},
                                                {"d_q", "B S G R E", detail::attentionData, Access::Written},
                                                {"d_k", "B T G E", detail::attentionData, Access::Written},
                                                {"d_v", "B T G E", detail::attentionData, Access::Written},
                                            }));

} // namespace dtc::abi::library
