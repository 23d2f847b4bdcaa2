// RUN: dtc-opt %s --dt-recompute-layers='rules="h.*=keep contract b"' | FileCheck %s --check-prefix=ONE
// RUN: dtc-opt %s --dt-recompute-layers='rules="h.*=keep contract b + gelu"' | FileCheck %s --check-prefix=TWO
// RUN: dtc-opt %s --dt-recompute-layers='rules="h.*=keep contract a + contract b #2"' | FileCheck %s --check-prefix=SECOND
// RUN: dtc-opt %s --dt-recompute-layers='rules="h.*=regather"' | FileCheck %s --check-prefix=REGATHER
// RUN: not dtc-opt %s --dt-recompute-layers='rules="h.*=keep contract c"' 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: not dtc-opt %s --dt-recompute-layers='rules="h.*=keep contract a +"' 2>&1 | FileCheck %s --check-prefix=NOTHING

// REFUSED: error: recompute: no value of h.* is called 'contract c'; did you mean 'contract a'?
// NOTHING: error: 'h.*=keep contract a +' is not PATTERN=HOW

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {

// What is named stays, and nothing else of the layer: values are called by operation and place, equal ones by their number.
// ONE-LABEL: func.func @step
// ONE: %[[B:.*]] = dt.contract "ab,bc->ac" %{{.*}}, %arg2 {dt.direction = #dt.direction<forward>
// ONE: %[[X:.*]] = dt.barrier %arg0
// ONE: %[[A2:.*]] = dt.contract "ab,bc->ac" %[[X]],
// ONE: %[[W2:.*]] = dt.all_gather %[[A2]]
// ONE-NEXT: dt.gelu %[[W2]]
// ONE: dt.mul %{{.*}}, %[[B]] {dt.direction = #dt.direction<weight_gradient>
// TWO-LABEL: func.func @step
// TWO: %[[G:.*]] = dt.gelu
// TWO-NOT: dt.all_gather
// TWO: dt.contract "ab,ac->bc" %[[G]], %{{.*}} {dt.direction = #dt.direction<weight_gradient>
// TWO-NOT: dt.all_gather
// SECOND-LABEL: func.func @step
// SECOND: %[[A:.*]] = dt.contract "ab,bc->ac" %arg0, %arg1
// SECOND: %[[C:.*]] = dt.contract "ab,bc->ac" %{{.*}}, %arg2
// SECOND: dt.barrier %[[A]]
// SECOND-NEXT: dt.all_gather
// SECOND: dt.contract "ab,bc->ac" %{{.*}}, %{{.*}} {dt.direction = #dt.direction<input_gradient>
// What was gathered is gathered again from the result of the product, which stays.
// REGATHER-LABEL: func.func @step
// REGATHER: %[[A:.*]] = dt.contract "ab,bc->ac" %arg0, %arg1
// REGATHER: %[[B:.*]] = dt.contract "ab,bc->ac" %{{.*}}, %arg2
// REGATHER: %[[A2:.*]] = dt.barrier %[[A]]
// REGATHER-NEXT: %[[W2:.*]] = dt.all_gather %[[A2]]
// REGATHER-NEXT: %[[G2:.*]] = dt.gelu %[[W2]]
// REGATHER-NEXT: dt.contract "ab,ac->bc" %[[G2]]
// REGATHER-NEXT: dt.mul %{{.*}}, %[[B]] {dt.direction = #dt.direction<weight_gradient>
func.func @step(%x: tensor<4x8xf32> {dt.port = #dt.port<input "x">}, %w: tensor<8x8xf32> {dt.port = #dt.port<parameter "w">}, %v: tensor<8x8xf32> {dt.port = #dt.port<parameter "v">}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %a = dt.contract "ab,bc->ac" %x, %w {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("h.0.a")
  %g = dt.all_gather %a along 0 over [#dt.axis_ref<"tp", 1, 0>] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x8xf32> -> tensor<8x8xf32> loc("h.0.b")
  %y = dt.gelu %g tanh {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32> loc("h.0")
  %b = dt.contract "ab,bc->ac" %y, %v {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("h.0.b")
  %c = dt.contract "ab,bc->ac" %b, %v {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("h.0.b")
  %d = dt.exp %c {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>
  %e = dt.contract "ab,ac->bc" %y, %d {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %f = dt.mul %d, %b {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>
  return %e, %f : tensor<8x8xf32>, tensor<8x8xf32>
}

}
