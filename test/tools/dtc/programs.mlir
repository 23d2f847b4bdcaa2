// What inspect and explain print about a program.

// RUN: dtc compile %examples/gpt-small --mesh tp=2 --set global_batch=2 -o %t.program | FileCheck %s --check-prefix=COMPILE
// RUN: dtc inspect %t.program | FileCheck %s --check-prefix=INSPECT
// RUN: dtc inspect %t.program --json | FileCheck %s --check-prefix=INSPECT-JSON
// RUN: dtc explain %t.program | FileCheck %s --check-prefix=EXPLAIN
// RUN: dtc explain %t.program --json | FileCheck %s --check-prefix=EXPLAIN-JSON

// COMPILE: gpt2 for tp=2 (2 ranks)

// INSPECT: Model       gpt2: 3257856 parameters in 52 tensors; seeded initialisation
// INSPECT: Mesh        tp=2: 2 ranks; strategy megatron
// INSPECT: Certificate no deadlock: 2 ranks in 1 class that meet in 1 group; evaluation: 1 step, {{[0-9]+}} commands; step: 1 step
// INSPECT: parameters
// INSPECT: Commands
// INSPECT: micro_last
// The file's fused projection is split by heads.
// Equal layers are one row.
// INSPECT: h.*.attn.c_attn.weight [256, 768]: embed, qkv, heads/tp, head_dim, [256, 3, 2, 64]; h.0 to h.3 (4)
// INSPECT-NOT: c_attn.weight
// INSPECT: dtc_gemm {{.*}} library
// Kernels are named by what they do.
// INSPECT: add_gelu {{.*}} generated
// INSPECT: layer_norm_backward_{{.*}} generated
// INSPECT: adamw {{.*}} generated

// INSPECT-JSON: "schema": 1
// INSPECT-JSON-NEXT: "dtc": "{{[0-9]+}}.
// INSPECT-JSON: "ranks": 2
// INSPECT-JSON: "local_shape": [

// The totals come first. The row-parallel projection of each block leaves partial sums behind; the blocks are shown
// together.
// EXPLAIN: In one step a rank takes part in
// EXPLAIN: all_reduce over tp at h.*.attn.c_proj (micro_last)
// EXPLAIN-NEXT: layers  h.0 to h.3: 4 collectives like this
// EXPLAIN-NEXT: value
// EXPLAIN-NEXT: why     partial over tp
// EXPLAIN-NEXT: part    forward of h.*
// EXPLAIN-NEXT: group   2 ranks, such as {0, 1}, on channel 0
// [2, 128, 256] of four bytes.
// EXPLAIN-NEXT: volume  262 kB (262144 bytes), of which a rank sends 262 kB; 1 time a step

// EXPLAIN-JSON: "schema": 1
// EXPLAIN-JSON: "collectives": [
// EXPLAIN-JSON: "kind": "all_reduce"
// EXPLAIN-JSON: "times_per_step": 1

// Its length does not grow with the number of layers.
// RUN: sed 's/"n_layer": 4/"n_layer": 12/' %examples/gpt-small/config.json > %t.config && rm -rf %t.deep && mkdir %t.deep && mv %t.config %t.deep/config.json
// RUN: dtc compile %t.deep --mesh tp=2 --set global_batch=2 -o %t.deep.program
// RUN: dtc explain %t.program | wc -l > %t.lines && dtc explain %t.deep.program | wc -l | diff %t.lines -
// RUN: dtc inspect %t.program | wc -l > %t.lines && dtc inspect %t.deep.program | wc -l | diff %t.lines -

// Headings are bold where a terminal shows it, and nowhere else.
// RUN: env -u NO_COLOR TERM=xterm script -qec "dtc inspect %t.program" /dev/null | grep -q "\[1m"
// RUN: env NO_COLOR=1 TERM=xterm script -qec "dtc inspect %t.program" /dev/null | not grep "\[1m"
// RUN: env -u NO_COLOR TERM=dumb script -qec "dtc inspect %t.program" /dev/null | not grep "\[1m"
// RUN: dtc inspect %t.program | not grep "\[1m"

// Of a gather each rank has a part and gets the others': the volume is the whole, and a rank sends its part.
// RUN: dtc compile %examples/gpt-small --mesh tp=2 --strategy megatron-sp --set global_batch=2 -o %t.gathers
// RUN: dtc explain %t.gathers | FileCheck %s --check-prefix=GATHERS
// GATHERS: all_gather over tp
// GATHERS: volume  262 kB (262144 bytes), of which a rank sends 131 kB

// What the system counts for each process is memory of processors: a program for GPUs works in no other's.
// RUN: dtc compile %examples/gpt-small --mesh tp=2 --set global_batch=2 --target cuda:sm_90 -o %t.gpu
// RUN: dtc inspect %t.program | FileCheck %s --check-prefix=PEERS
// RUN: dtc inspect %t.gpu | FileCheck %s --check-prefix=GPU
// RUN: dtc inspect %t.gpu --json | FileCheck %s --check-prefix=GPU-JSON
// PEERS: of its peers' memory
// GPU-NOT: of its peers' memory
// GPU: Commands
// GPU-JSON: "peer_bytes": 0,

// One rank is one.
// RUN: dtc compile %examples/gpt-small --set global_batch=2 -o %t.alone | FileCheck %s --check-prefix=ALONE
// RUN: dtc inspect %t.alone | FileCheck %s --check-prefix=ALONE
// ALONE: dp=1{{:| \(}}{{ ?}}1 rank{{[);]}}
