// A GPT-2 directory becomes @loss over logical tensors: dimensions are factored, names are the file's.

// RUN: dtc compile %examples/gpt2 --compile-to model --set global_batch=2 | FileCheck %s
// RUN: dtc compile %examples/gpt2 --compile-to model --set global_batch=2 --locations | FileCheck %s --check-prefix=NAMES

// Tied embeddings: one table of 50257 rows, which files may hold under two names, no output projection.
// CHECK: dt.parameters = [#dt.param<"wte.weight", {{[^>]*}}, tied = ["lm_head.weight"]>
// CHECK-NOT: #dt.param<"lm_head.weight"
// The fused query, key and value projection keeps its bijection to the file.
// CHECK-SAME: #dt.param<"h.0.attn.c_attn.weight", layer = <"h"[0]>, file = [768, 2304], factored = [768, 3, 12, 64], permutation = [0, 1, 2, 3], dims = ["embed", "qkv", "heads", "head_dim"], init = "normal"
// CHECK-SAME: decays = true>
// CHECK-SAME: #dt.param<"h.0.attn.c_attn.bias", layer = <"h"[0]>, file = [2304]
// CHECK-SAME: init = "zeros"
// CHECK-SAME: decays = false>

// CHECK-LABEL: func.func @loss
// CHECK-SAME: [[WTE:%.*]]: tensor<50257x768xf32> {dt.port = #dt.port<parameter "wte.weight">}
// CHECK-SAME: tensor<2x1024xi32> {dt.dims = ["batch", "sequence"], dt.port = #dt.port<input "tokens" from tokens>}
// CHECK: dt.tag {{.*}} "residual" ["batch", "sequence", "embed"]
// CHECK: dt.layer_norm
// CHECK: dt.contract "bsd,dthe->bsthe"
// CHECK: dt.attention {{.*}}causal = true
// CHECK: dt.contract "bshe,hed->bsd" {{.*}}dt.layer = #dt.layer<"h"[0]>
// CHECK: dt.dropout {{.*}} rate {{.*}} site 2
// CHECK: dt.tag {{.*}} "h.0.residual_attn"
// CHECK: dt.gelu {{.*}} tanh
// CHECK: dt.tag {{.*}} "h.11.residual_mlp"
// CHECK: dt.contract "bsd,vd->bsv" {{.*}}, [[WTE]]
// CHECK: dt.softmax_cross_entropy {{.*}} ignore -100
// CHECK: return {{.*}} : tensor<f32>, tensor<f32>

// NAMES: dt.contract "bsd,dthe->bsthe" {{.*}}dt.layer = #dt.layer<"h"[3]>{{.*}} loc([[PLACE:#loc[0-9]+]])
// NAMES: [[PLACE]] = loc("h.3.attn.c_attn")
