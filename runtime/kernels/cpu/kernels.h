// Library kernels: the work that generated code leaves to hand-written or library routines. Each has the signature
// dtc_kernel_fn; the comment at each says its buffers, scalars and grid. Strides are in elements. "real" scalars are
// doubles as bit patterns. Elements are f32 unless a comment says otherwise; "element" scalars are a dtc_element: data
// of 16 bits is widened where it is read, computed with in f32, and rounded to the nearest where it is written. Kernels
// that only move elements are told how wide they are.
#pragma once

#include "runtime/abi/kernel.h"

#include <string_view>

namespace dtc::kernels {

/// The library kernel of that name, or null.
dtc_kernel_fn find(std::string_view symbol);

} // namespace dtc::kernels

extern "C" {

/// C[b] = op(A[b]) op(B[b]) + accumulate * C[b]. Row-major; op(A) is M x K, op(B) is K x N.
/// buffers: A, B, C. scalars: 0 batch, 1 M, 2 N, 3 K, 4 transpose_a, 5 transpose_b, 6 lda, 7 ldb, 8 ldc,
/// 9 stride_a, 10 stride_b, 11 stride_c (between batches), 12 accumulate (0 or 1); 14 element of A and B, 15 of C: that
/// of A and B or f32.
/// grid: batch * (split_n ? N : M); 13 split_n: 1 when threads divide the columns of C, 0 when they divide rows.
/// Every thread packs the whole of the operand that is not divided, so divide the larger of M and N; parts of a
/// multiple of 8 rows or 48 columns waste nothing, of 32 of either where the processor multiplies tiles of bf16. Of a
/// product of 8 rows or fewer B is not packed, but read once. Each element is one chain of fused multiply-adds in the
/// order of k; where the processor multiplies pairs of bf16, of sums of two products.
void dtc_gemm(void *const *, const int64_t *, int64_t, int64_t);

/// Attention with online softmax; the score matrix is never stored.
/// buffers: q [B,S,G,R,E], k [B,T,G,E], v [B,T,G,E], q_positions [S] i32, k_positions [T] i32, key [4] i32 (seed, step,
/// sample offset, 0), out [B,S,G,R,E], lse [B,G,R,S] (natural-log sum of exponentials of the scaled scores).
/// q, k, v, out may be strided views with unit stride in E, of one type; lse is dense and f32.
/// scalars: 0 B, 1 S, 2 T, 3 G, 4 R, 5 E; strides of q: 6 b, 7 s, 8 g, 9 r; of k: 10 b, 11 t, 12 g; of v: 13 b, 14 t,
/// 15 g; of out: 16 b, 17 s, 18 g, 19 r; 20 real scale, 21 causal (key position > query position is masked; 2:
/// and S is T, and that is key index > query index), 22 real dropout probability, 23 site, 24 first sample of this
/// rank, 25 first g of this rank, 26 first r of this rank, 27 G over all ranks, 28 R over all ranks, 29 length of the
/// whole sequence L; 30 element of q, k, v and out; 31 window W (a key whose position is not above the query's minus W
/// is masked; 0: none); 32 real soft cap c (scaled scores s become c tanh(s / c); 0: none); 33: 1 where a buffer
/// starts [B,S] i32 stands behind the key (a key whose position is below the query's start is masked), else 0. The
/// dropout draw of an
/// element has index (((sample * G_all + g) * R_all + r) * L + q_position) * L + k_position, with sample = key[2] +
/// scalar 24 + b; kept probabilities are divided by 1 - p after normalisation; lse ignores dropout. grid: B * G * R.
void dtc_attention_forward(void *const *, const int64_t *, int64_t, int64_t);

/// Its gradient, all but lse of one type; d_q, d_k and d_v are overwritten.
/// buffers: q, k, v, q_positions, k_positions, key, out, lse, d_out (strided like out), d_q (like q), d_k (like k),
/// d_v (like v). scalars: 0 to 33 as above, starts too behind the key; then strides of d_out: 34 b, 35 s, 36 g,
/// 37 r; d_q: 38 b, 39 s, 40 g, 41 r; d_k: 42 b, 43 t, 44 g; d_v: 45 b, 46 t, 47 g. grid: B * G.
void dtc_attention_backward(void *const *, const int64_t *, int64_t, int64_t);

/// Rotary embedding, half-split convention: pairs (i, i + n) of the first 2n elements are rotated by sign times
/// position times rotaryFrequency(theta, n, scaling, i) of runtime/abi/rotary.h, and multiplied by the amplitude; the
/// others stay. buffers: x [outer, S, inner, E], positions [S] i32, out like x (may be x). scalars: 0 outer, 1 S, 2
/// inner, 3 E, 4 real theta, 5 sign (1 forward, -1 backward); strides of x: 6 outer, 7 s, 8 inner; of out: 9, 10, 11;
/// 12 element of x and out; 13 n; the scaling's fields, real: 14 factor, 15 per frequency, 16 per pair, 17 constant, 18
/// amplitude. grid: outer * S.
void dtc_rotary(void *const *, const int64_t *, int64_t, int64_t);

/// out[i] = table[indices[i] - first] where that is within [0, rows), else zeros.
/// buffers: table [rows, width] of any type, indices [count] i32, out [count, width] like the table. scalars: 0 rows,
/// 1 width, 2 first, 3 bytes of an element of the table. grid: count.
void dtc_gather(void *const *, const int64_t *, int64_t, int64_t);

/// out[indices[i] - first] += updates[i] for indices within the rows, in the order of i.
/// buffers: updates [count, width], indices [count] i32, out [rows, width] in place. scalars: 0 rows, 1 width, 2 first,
/// 3 count. grid: width (threads divide columns).
void dtc_scatter_add(void *const *, const int64_t *, int64_t, int64_t);

/// out[o, positions[s], i, :] = rows[o, s, i, :], of any type of 1, 2 or 4 bytes; positions outside [0, T) are skipped.
/// buffers: rows [outer, S, inner, E], positions [S] i32, out [outer, T, inner, E] in place. scalars: 0 outer, 1 S,
/// 2 inner, 3 E, 4 T; strides of the rows: 5 outer, 6 s, 7 inner; 8 bytes of an element. grid: outer * S.
void dtc_write_rows(void *const *, const int64_t *, int64_t, int64_t);

/// Strided copy of up to six dimensions, any type of 1, 2 or 4 bytes. buffers: in, out. scalars: 0..5 sizes (leading
/// ones are 1), 6..11 strides of in, 12..17 strides of out, 18 offset in elements added to in (a rank index for shard
/// slices), 19 offset added to out. The source may end early along one dimension, named by 21 (0..5): there index i is
/// element scalar 22 + i of the source, which has scalar 20 of them (INT64_MAX: no end); zeros are written for the
/// others. 23 bytes of an element. grid: size 0 * size 1.
void dtc_copy(void *const *, const int64_t *, int64_t, int64_t);

/// Writes the bit pattern of scalar 0 to out, whose elements have as many bytes as scalar 1 says (1, 2 or 4). buffers:
/// out. grid: elements.
void dtc_fill(void *const *, const int64_t *, int64_t, int64_t);
}
