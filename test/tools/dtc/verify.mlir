// What the compiler makes of the examples is what the model says, on every rank; sizes shrink without changing which
// collectives there are.

// RUN: dtc verify %examples/gpt-small --mesh dp=2,tp=2 --set global_batch=8 | FileCheck %s
// RUN: dtc verify %examples/llama-small --mesh dp=2,tp=2 --set global_batch=8 --json | FileCheck %s --check-prefix=JSON
// RUN: sh -c 'dtc verify %examples/gpt-small --mesh dp=128 --set global_batch=128; test $? = 3' 2>&1 | FileCheck %s --check-prefix=RANKS

// CHECK: Sizes
// CHECK-SAME: vocab 24
// CHECK: Verified    all agree
// JSON: "verified": true
// RANKS: 128 ranks: verify runs them all in this process

// Of layers one of each class stays: the first, one in between, the last. Where a strategy treats a layer in another way, that one
// stays, too; and in each stage of a pipeline, whatever the strategy says of how many these have.
// RUN: dtc verify %examples/gpt2 --mesh dp=2 | FileCheck %s --check-prefix=THREE
// THREE: layers 3
// THREE: Verified    all agree
// RUN: printf 'preset = "ddp"\n[storage]\n"h.1.mlp.c_fc.weight" = { any = ["dp"] }\n' > %t.odd.toml
// RUN: dtc verify %examples/gpt2 --mesh dp=2 --strategy %t.odd.toml | FileCheck %s --check-prefix=ODD
// ODD: layers 4
// ODD: Verified    all agree
// RUN: sed -i s/h.1/h.7/ %t.odd.toml
// RUN: dtc verify %examples/gpt2 --mesh dp=2 --strategy %t.odd.toml | FileCheck %s --check-prefix=ALL
// ALL: layers 12
// ALL: Verified    all agree
// RUN: printf '[stages]\nlayers = [9, 3]\n' > %t.stages.toml
// RUN: dtc verify %examples/gpt2 --mesh pp=2 --strategy %t.stages.toml --set global_batch=2 --set accumulation=2 | FileCheck %s --check-prefix=STAGES
// STAGES: layers 6
// STAGES: Verified    all agree

// Untied embeddings: two tables whose gradients start from zeros of one shape on each rank.
// RUN: rm -rf %t && mkdir %t && sed s/true/false/ %examples/gpt-small/config.json > %t/config.json
// RUN: dtc verify %t --mesh dp=2,tp=2 | FileCheck %s

// A sequence whose remainder is larger than that of the positions: there must still be a position for each token.
// RUN: dtc verify %examples/gpt-small --mesh dp=2,tp=2 --set sequence_length=50 --set global_batch=4 | FileCheck %s --check-prefix=POSITIONS
// POSITIONS: sequence 10
// POSITIONS: Verified    all agree
