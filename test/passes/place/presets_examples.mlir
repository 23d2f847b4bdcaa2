// The other shipped examples under the presets: grouped-query heads, and a vocabulary that tp does not divide.

// RUN: dtc compile %examples/llama-small --mesh dp=2,tp=4 --strategy megatron --compile-to where -o %t
// RUN: FileCheck %s --check-prefix=LLAMA < %t
// RUN: dtc compile %examples/llama-small --mesh dp=2,tp=2 --strategy megatron-sp --compile-to where -o %t
// RUN: FileCheck %s --check-prefix=SEQUENCE < %t
// RUN: dtc compile %examples/gpt2 --mesh tp=4 --strategy megatron --compile-to where -o %t
// RUN: FileCheck %s --check-prefix=VOCAB < %t

// Query, key and value projections add their partial input gradients before the one reduction of their block; so do the
// two projections of SwiGLU.
// LLAMA-LABEL: func.func @micro(
// LLAMA-NOT: dt.all_gather
// LLAMA: dt.all_reduce sum {{.*}}dt.layer = #dt.layer<"model.layers"[0]>{{.*}}self_attn{{[._a-z]*}} over
// LLAMA-NOT: dt.layer = #dt.layer<"model.layers"[0]>{{.*}}reason
// LLAMA: dt.all_reduce sum {{.*}}dt.layer = #dt.layer<"model.layers"[0]>{{.*}}mlp{{[._a-z]*}} over
// LLAMA-NOT: dt.layer = #dt.layer<"model.layers"[0]>{{.*}}reason
// LLAMA: dt.all_reduce max {{.*}}at loss over vocab
// LLAMA-NOT: dt.all_gather
// LLAMA-NOT: dt.layer = #dt.layer<"model.layers"[0]>{{.*}}reason
// LLAMA: dt.all_reduce sum {{.*}}dt.layer = #dt.layer<"model.layers"[0]>{{.*}}mlp{{[._a-z]*}} over
// LLAMA-NOT: dt.layer = #dt.layer<"model.layers"[0]>{{.*}}reason
// LLAMA: dt.all_reduce sum {{.*}}dt.layer = #dt.layer<"model.layers"[0]>{{.*}}self_attn{{[._a-z]*}} over
// LLAMA-NOT: dt.layer = #dt.layer<"model.layers"[0]>{{.*}}reason
// LLAMA: func.func

// SEQUENCE-LABEL: func.func @micro(
// SEQUENCE-NOT: dt.all_reduce sum {{.*}}dt.layer
// SEQUENCE: dt.all_gather {{.*}}dt.layer = #dt.layer<"model.layers"[0]>
// SEQUENCE: dt.reduce_scatter sum {{.*}}dt.layer = #dt.layer<"model.layers"[0]>{{.*}}self_attn{{[._a-z]*}} over
// SEQUENCE: dt.all_gather {{.*}}dt.layer = #dt.layer<"model.layers"[0]>
// SEQUENCE: dt.reduce_scatter sum {{.*}}dt.layer = #dt.layer<"model.layers"[0]>{{.*}}mlp{{[._a-z]*}} over
// SEQUENCE: func.func

// 50257 over 4 pieces of 12565: the loss needs three numbers a token, and nothing is gathered.
// VOCAB-LABEL: func.func @micro(
// VOCAB-NOT: dt.all_gather
// VOCAB: tensor<{{[0-9]+}}x1024x12565xf32>
// VOCAB-NOT: dt.all_gather
// VOCAB: dt.all_reduce max {{.*}}at loss over vocab{{.*}}tensor<{{[0-9]+}}x1024xf32> -> tensor<{{[0-9]+}}x1024xf32>
// VOCAB-NOT: dt.all_gather
// VOCAB: dt.all_reduce sum {{.*}}at loss over vocab{{.*}}tensor<{{[0-9]+}}x1024xf32> -> tensor<{{[0-9]+}}x1024xf32>
// VOCAB-NOT: dt.all_gather
// VOCAB: dt.all_reduce sum {{.*}}at loss over vocab{{.*}}tensor<{{[0-9]+}}x1024xf32> -> tensor<{{[0-9]+}}x1024xf32>
// VOCAB-NOT: dt.all_gather
// VOCAB: func.func
