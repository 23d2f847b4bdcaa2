// A Llama directory with grouped-query attention: key/value heads and the query heads they serve are dimensions of
// their own, and the [out, in] weights of the file become [in, out].

// RUN: dtc compile %examples/llama-small --compile-to model --set global_batch=2 | FileCheck %s

// CHECK: dt.parameters = [#dt.param<"model.embed_tokens.weight", {{[^>]*}}decays = true>
// CHECK-SAME: #dt.param<"model.layers.0.self_attn.q_proj.weight", layer = <"model.layers"[0]>, file = [256, 256], factored = [2, 4, 32, 256], permutation = [3, 0, 1, 2], dims = ["embed", "kv_heads", "group", "head_dim"]
// CHECK-SAME: #dt.param<"model.layers.0.self_attn.k_proj.weight", layer = <"model.layers"[0]>, file = [64, 256], factored = [2, 32, 256], permutation = [2, 0, 1], dims = ["embed", "kv_heads", "head_dim"]
// CHECK-SAME: #dt.param<"model.layers.0.self_attn.o_proj.weight", layer = <"model.layers"[0]>, file = [256, 256], factored = [256, 2, 4, 32], permutation = [1, 2, 3, 0]
// CHECK-SAME: #dt.param<"lm_head.weight", file = [256, 256]

// CHECK-LABEL: func.func @loss
// CHECK: dt.rms_norm
// CHECK: dt.contract "bsd,dgre->bsgre"
// CHECK: dt.rotary
// CHECK: dt.contract "bsd,dge->bsge"
// CHECK: dt.rotary
// No dropout: the attention draws nothing.
// CHECK: dt.attention {{.*}}dropout = 0.000000e+00
// CHECK: dt.contract "bsgre,gred->bsd"
// The gate is activated, then multiplied with the other projection.
// CHECK: [[GATE:%.*]] = dt.silu
// CHECK: dt.mul [[GATE]]
// CHECK-NOT: dt.dropout
