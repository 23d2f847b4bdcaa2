// What inspect and explain say of a program.

// RUN: dtc compile %examples/gpt-small --mesh tp=2 --set global_batch=2 -o %t.program | FileCheck %s --check-prefix=COMPILE
// RUN: dtc inspect %t.program | FileCheck %s --check-prefix=INSPECT
// RUN: dtc inspect %t.program --json | FileCheck %s --check-prefix=INSPECT-JSON
// RUN: dtc explain %t.program | FileCheck %s --check-prefix=EXPLAIN
// RUN: dtc explain %t.program --json | FileCheck %s --check-prefix=EXPLAIN-JSON

// COMPILE: gpt2 for tp=2 (2 ranks)

// INSPECT: Model       gpt2: 3257856 parameters in 52 tensors; seeded initialisation
// INSPECT: Mesh        tp=2: 2 ranks; strategy megatron
// INSPECT: parameters
// INSPECT: Commands
// INSPECT: micro_first
// The file's fused projection lies split by heads.
// INSPECT: h.0.attn.c_attn.weight [256, 768]: embed, qkv, heads/tp, head_dim, [256, 3, 2, 64]
// INSPECT: dtc_gemm {{.*}} library

// INSPECT-JSON: "ranks": 2
// INSPECT-JSON: "local_shape": [

// The row-parallel projection of the first block leaves partial sums behind.
// EXPLAIN: all_reduce over tp at h.0.attn.c_proj (micro_first)
// EXPLAIN-NEXT: value
// EXPLAIN-NEXT: why     partial over tp
// EXPLAIN-NEXT: group   2 ranks, such as {0, 1}
// [2, 128, 256] of four bytes.
// EXPLAIN-NEXT: volume  262 kB (262144 bytes), of which a rank sends 262 kB; 1 time a step
// EXPLAIN: In one step a rank takes part in

// EXPLAIN-JSON: "kind": "all_reduce"
// EXPLAIN-JSON: "times_per_step": 1
