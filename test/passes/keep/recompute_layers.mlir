// RUN: dtc-opt %s --dt-recompute-layers='rules="h.*=full"' --split-input-file | FileCheck %s --check-prefix=FULL
// Nothing that merges equal operations takes it back.
// RUN: dtc-opt %s --dt-recompute-layers='rules="h.*=full"' --cse --canonicalize --split-input-file | FileCheck %s --check-prefix=FULL
// RUN: dtc-opt %s --dt-recompute-layers='rules="h.*=selective"' --split-input-file | FileCheck %s --check-prefix=SELECTIVE
// RUN: dtc-opt %s --dt-recompute-layers='rules="h.*=cheap"' --split-input-file | FileCheck %s --check-prefix=KEPT
// RUN: dtc-opt %s --dt-recompute-layers='rules="*=full,h.*=none"' --split-input-file | FileCheck %s --check-prefix=KEPT
// RUN: dtc-opt %s --dt-recompute-layers='rules="g.*=full"' --split-input-file | FileCheck %s --check-prefix=KEPT
// RUN: dtc-opt %s --dt-recompute-layers='rules="h.*=every:2"' --split-input-file | FileCheck %s --check-prefix=EVERY
// RUN: dtc-opt %s --dt-recompute-layers='rules="h.*=regather"' --split-input-file | FileCheck %s --check-prefix=REGATHER
// RUN: not dtc-opt %s --dt-recompute-layers='rules="h.*=all"' --split-input-file 2>&1 | FileCheck %s --check-prefix=REFUSED

// REFUSED: error: 'h.*=all' is not PATTERN=HOW, where HOW is none, cheap, regather, selective, full, every:K, offload or keep VALUE + VALUE, or counts such as 5 full, 7 cheap

module attributes {dt.mesh = #dt.mesh<"dp" = 1>} {

// The product and what is made of it are recomputed for the late reader, before it, from the layer's input.
// FULL-LABEL: func.func @late_reader(%arg0: {{.*}}, %arg1
// FULL: %[[H:.*]] = dt.contract "ab,bc->ac" %arg0, %arg1 {dt.layer
// FULL: %[[Y:.*]] = dt.gelu %[[H]] tanh
// FULL: %[[P:.*]] = dt.contract "ab,bc->ac" %[[Y]], %arg2
// FULL: %[[O:.*]] = dt.exp %[[P]]
// FULL: %[[D:.*]] = dt.mul %[[O]], %[[O]]
// FULL: %[[X2:.*]] = dt.barrier %arg0
// FULL-NEXT: %[[W2:.*]] = dt.barrier %arg1
// FULL-NEXT: %[[H2:.*]] = dt.contract "ab,bc->ac" %[[X2]], %[[W2]] {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[0]>}
// FULL-NEXT: %[[Y2:.*]] = dt.gelu %[[H2]] tanh
// FULL-NEXT: dt.contract "ab,ac->bc" %[[Y2]], %[[D]]
// FULL-NEXT: dt.gelu_grad %[[D]], %[[H2]]
// Operands of products with weights stay.
// SELECTIVE-LABEL: func.func @late_reader
// SELECTIVE: %[[H:.*]] = dt.contract "ab,bc->ac" %arg0, %arg1
// SELECTIVE: %[[D:.*]] = dt.mul
// SELECTIVE-NEXT: %[[H2:.*]] = dt.barrier %[[H]]
// SELECTIVE-NEXT: %[[Y2:.*]] = dt.gelu %[[H2]] tanh
// SELECTIVE-NEXT: dt.contract "ab,ac->bc" %[[Y2]], %[[D]]
// SELECTIVE-NEXT: dt.gelu_grad %[[D]], %[[H]]
// KEPT-LABEL: func.func @late_reader
// KEPT-NOT: dt.barrier
func.func @late_reader(%x: tensor<8x8xf32> {dt.port = #dt.port<input "x">}, %w: tensor<8x8xf32> {dt.port = #dt.port<parameter "w">}, %v: tensor<8x8xf32> {dt.port = #dt.port<parameter "v">}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %h = dt.contract "ab,bc->ac" %x, %w {dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %y = dt.gelu %h tanh {dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>
  %p = dt.contract "ab,bc->ac" %y, %v {dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %o = dt.exp %p : tensor<8x8xf32>
  %d = dt.mul %o, %o {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>
  %g = dt.contract "ab,ac->bc" %y, %d {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %e = dt.gelu_grad %d, %h tanh {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>
  return %g, %e : tensor<8x8xf32>, tensor<8x8xf32>
}

// What one layer passes to the next stays, unless both are of one group.
// FULL-LABEL: func.func @layers
// FULL: %[[A:.*]] = dt.contract "ab,bc->ac" %arg0, %arg1
// FULL-NEXT: %[[B:.*]] = dt.contract "ab,bc->ac" %[[A]], %arg1
// FULL: dt.contract "ab,ac->bc" %[[A]], %{{.*}} {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>}
// FULL-NEXT: return
// EVERY-LABEL: func.func @layers
// EVERY: %[[A:.*]] = dt.contract "ab,bc->ac" %arg0, %arg1
// EVERY: %[[X2:.*]] = dt.barrier %arg0
// EVERY-NEXT: %[[W2:.*]] = dt.barrier %arg1
// EVERY-NEXT: %[[A2:.*]] = dt.contract "ab,bc->ac" %[[X2]], %[[W2]] {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[0]>}
// EVERY-NEXT: dt.contract "ab,ac->bc" %[[A2]], %
func.func @layers(%x: tensor<8x8xf32> {dt.port = #dt.port<input "x">}, %w: tensor<8x8xf32> {dt.port = #dt.port<parameter "w">}) -> tensor<8x8xf32> {
  %a = dt.contract "ab,bc->ac" %x, %w {dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %b = dt.contract "ab,bc->ac" %a, %w {dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %o = dt.exp %b : tensor<8x8xf32>
  %d = dt.mul %o, %o {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>
  %g = dt.contract "ab,ac->bc" %a, %d {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %g : tensor<8x8xf32>
}

}

// -----

// Groups end with their stage of a pipeline: the second layer's input is received, and stays.
module attributes {dt.mesh = #dt.mesh<"pp" = 2>} {
// EVERY-LABEL: func.func @stages
// EVERY-NOT: dt.barrier
// EVERY: return
func.func @stages(%x: tensor<8x8xf32> {dt.port = #dt.port<input "x">}, %w: tensor<8x8xf32> {dt.port = #dt.port<parameter "w">}) -> tensor<8x8xf32> {
  %a = dt.contract "ab,bc->ac" %x, %w {dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %b = dt.contract "ab,bc->ac" %a, %w {dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %o = dt.exp %b : tensor<8x8xf32>
  %d = dt.mul %o, %o {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>
  %g = dt.contract "ab,ac->bc" %a, %d {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %g : tensor<8x8xf32>
}
}

// -----

// Results that need other ranks are computed with them again, or kept. A mask has its key.
module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
// FULL-LABEL: func.func @collective
// FULL: dt.all_reduce
// FULL: dt.barrier
// FULL: dt.all_reduce sum %{{.*}} {dt.direction = #dt.direction<input_gradient>
// FULL: dt.random %{{.*}} site 5 of [8, 8] {dt.direction = #dt.direction<input_gradient>
// SELECTIVE-LABEL: func.func @collective
// SELECTIVE: %[[R:.*]] = dt.all_reduce
// SELECTIVE: dt.barrier %[[R]]
// SELECTIVE-NOT: dt.all_reduce
// SELECTIVE: dt.random %{{.*}} site 5 of [8, 8] {dt.direction = #dt.direction<input_gradient>
// REGATHER-LABEL: func.func @collective
// REGATHER: %[[R:.*]] = dt.all_reduce
// REGATHER: dt.barrier %[[R]]
// REGATHER-NOT: dt.all_reduce
func.func @collective(%x: tensor<8x8xf32> {dt.port = #dt.port<input "x">}, %k: tensor<4xi32> {dt.port = #dt.port<input "k">}) -> tensor<8x8xf32> {
  %r = dt.all_reduce sum %x over [#dt.axis_ref<"tp", 1, 0>] {dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32> -> tensor<8x8xf32>
  %m = dt.random %k site 5 of [8, 8] {dt.layer = #dt.layer<"h"[0]>} : tensor<4xi32> -> tensor<8x8xf32>
  %y = dt.mul %r, %m {dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>
  %p = dt.contract "ab,bc->ac" %y, %y {dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %o = dt.exp %p : tensor<8x8xf32>
  %g = dt.contract "ab,ac->bc" %y, %o {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %g : tensor<8x8xf32>
}
}
