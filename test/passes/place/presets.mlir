// What the presets do with the shipped examples.

// RUN: dtc compile %examples/gpt-small --mesh dp=2,tp=2 --strategy megatron --compile-to where -o %t
// RUN: FileCheck %s --check-prefix=MEGATRON < %t
// RUN: dtc compile %examples/gpt-small --mesh dp=2,tp=2 --strategy megatron-sp --compile-to where -o %t
// RUN: FileCheck %s --check-prefix=SEQUENCE < %t
// RUN: dtc compile %examples/gpt-small --mesh dp=4 --strategy ddp --compile-to where -o %t
// RUN: FileCheck %s --check-prefix=DATA < %t
// RUN: dtc compile %examples/gpt-small --mesh cp=2 --strategy cp --compile-to where -o %t
// RUN: FileCheck %s --check-prefix=CONTEXT < %t

// One reduction for each block forward, and no logits gathered; then one for each block backward.
// MEGATRON-LABEL: func.func @micro(
// MEGATRON-NOT: dt.all_gather
// MEGATRON: dt.all_reduce sum {{.*}}dt.layer = #dt.layer<"h"[0]>{{.*}}h.0.attn.c_proj over heads
// MEGATRON-NOT: dt.layer = #dt.layer<"h"[0]>{{.*}}reason
// MEGATRON: dt.all_reduce sum {{.*}}dt.layer = #dt.layer<"h"[0]>{{.*}}h.0.mlp.c_proj over mlp
// MEGATRON-NOT: dt.layer = #dt.layer<"h"[0]>{{.*}}reason
// MEGATRON: dt.all_reduce max {{.*}}at loss over vocab
// MEGATRON: dt.all_reduce sum {{.*}}at loss over vocab
// MEGATRON: dt.all_reduce sum {{.*}}at loss over vocab
// MEGATRON-NOT: dt.all_gather
// MEGATRON-NOT: dt.layer = #dt.layer<"h"[0]>{{.*}}reason
// MEGATRON: dt.all_reduce sum {{.*}}dt.layer = #dt.layer<"h"[0]>{{.*}}h.0.mlp.c_fc over mlp
// MEGATRON-NOT: dt.layer = #dt.layer<"h"[0]>{{.*}}reason
// MEGATRON: dt.all_reduce sum {{.*}}dt.layer = #dt.layer<"h"[0]>{{.*}}h.0.attn.c_attn over heads
// MEGATRON-NOT: dt.layer = #dt.layer<"h"[0]>{{.*}}reason
// MEGATRON: func.func

// Each block is entered by a gather and left by a reduce-scatter, in both directions.
// SEQUENCE-LABEL: func.func @micro(
// SEQUENCE-NOT: dt.all_reduce sum {{.*}}dt.layer
// SEQUENCE: dt.all_gather {{.*}}dt.layer = #dt.layer<"h"[0]>{{.*}}needed whole by dt.contract at h.0.attn.c_attn
// SEQUENCE: dt.reduce_scatter sum {{.*}}dt.layer = #dt.layer<"h"[0]>{{.*}}h.0.attn.c_proj over heads
// SEQUENCE: dt.all_gather {{.*}}dt.layer = #dt.layer<"h"[0]>{{.*}}needed whole by dt.contract at h.0.mlp.c_fc
// SEQUENCE: dt.reduce_scatter sum {{.*}}dt.layer = #dt.layer<"h"[0]>{{.*}}h.0.mlp.c_proj over mlp
// SEQUENCE: dt.all_gather {{.*}}dt.layer = #dt.layer<"h"[0]>{{.*}}needed whole by dt.contract at h.0.mlp.c_proj
// SEQUENCE: dt.reduce_scatter sum {{.*}}dt.layer = #dt.layer<"h"[0]>{{.*}}h.0.mlp.c_fc over mlp
// SEQUENCE: dt.all_gather {{.*}}dt.layer = #dt.layer<"h"[0]>{{.*}}needed whole by dt.contract at h.0.attn.c_proj
// SEQUENCE: dt.reduce_scatter sum {{.*}}dt.layer = #dt.layer<"h"[0]>{{.*}}h.0.attn.c_attn over heads
// SEQUENCE: func.func

// Micro-batches need no communication; gradients are reduced once a step.
// DATA-LABEL: func.func @micro(
// DATA-NOT: dt.all_reduce
// DATA-NOT: dt.all_gather
// Gradients have the names of their parameters' dimensions, wherever they lie.
// DATA: func.func @reduce({{.*}} {dt.dims = ["vocab", "embed"], dt.port = #dt.port<gradient
// DATA: dt.all_reduce sum {{.*}}over batch

// A rank has half of each sequence. Of all that a layer computes, keys and values alone are gathered, and their gradients
// reduced and split again; nothing else waits for another rank until the end of the step.
// CONTEXT-LABEL: func.func @micro(
// CONTEXT-SAME: tensor<8x64xi32> {dt.dims = ["batch", "sequence"], dt.port = #dt.port<input "tokens" from tokens, placed = <[{}, {"cp"}]>
// CONTEXT-NOT: dt.all_reduce
// CONTEXT: dt.all_gather {{.*}}dt.layer = #dt.layer<"h"[0]>{{.*}}reason = "split over cp along sequence, needed whole by dt.attention at h.0.attn", remedy = "[inputs] \22*\22 = { sequence = [] }"
// CONTEXT: dt.all_gather {{.*}}dt.layer = #dt.layer<"h"[0]>{{.*}}needed whole by dt.attention at h.0.attn"
// CONTEXT-NOT: dt.all_gather {{.*}}dt.layer = #dt.layer<"h"[0]>
// CONTEXT-NOT: dt.all_reduce
// CONTEXT: dt.reduce_scatter sum {{.*}}dt.layer = #dt.layer<"h"[0]>{{.*}}partial over cp (dt.attention_grad at h.0.attn over sequence)
// CONTEXT: dt.reduce_scatter sum {{.*}}dt.layer = #dt.layer<"h"[0]>{{.*}}partial over cp (dt.attention_grad at h.0.attn over sequence)
// CONTEXT-NOT: dt.reduce_scatter
// CONTEXT-NOT: dt.all_reduce
// CONTEXT: func.func
