// RUN: dtc-opt %s --dt-offload-layers='rules="h.*=offload"' --split-input-file --verify-diagnostics | FileCheck %s
// Nothing that merges equal operations takes it back.
// RUN: dtc-opt %s --dt-offload-layers='rules="h.*=offload"' --cse --canonicalize --split-input-file --verify-diagnostics | FileCheck %s
// RUN: dtc-opt %s --dt-offload-layers='rules="h.*=cheap"' --split-input-file | FileCheck %s --check-prefix=KEPT

// KEPT-NOT: dt.offload

module attributes {dt.mesh = #dt.mesh<"dp" = 2>} {

// What is kept of the first layer leaves as soon as it is there, and comes back for its first reader, which others share.
// What is made of it where it is read is made again. The last layer's stays, as does a row's statistic and what is returned.
// CHECK-LABEL: func.func @layers
// CHECK: %[[H:.*]] = dt.contract "ab,bc->ac" %arg0, %arg1 {dt.layer = #dt.layer<"h"[0]>}
// CHECK-NEXT: %[[OUT:.*]] = dt.offload %[[H]] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>}
// CHECK-NEXT: %[[Y:.*]] = dt.exp %[[H]]
// CHECK-NOT: dt.offload
// CHECK: %[[BACK:.*]] = dt.fetch %[[OUT]] {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[0]>}
// CHECK-NEXT: %[[AGAIN:.*]] = dt.exp %[[BACK]] {dt.direction = #dt.direction<input_gradient>
// CHECK-NEXT: dt.mul %{{.*}}, %[[AGAIN]]
// CHECK: dt.gelu_grad %{{.*}}, %[[BACK]]
func.func @layers(%x: tensor<32x32xf32> {dt.port = #dt.port<input "x">}, %w: tensor<32x32xf32> {dt.port = #dt.port<parameter "w">}) -> (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32xf32>) {
  %h = dt.contract "ab,bc->ac" %x, %w {dt.layer = #dt.layer<"h"[0]>} : tensor<32x32xf32>, tensor<32x32xf32> -> tensor<32x32xf32>
  %y = dt.exp %h {dt.layer = #dt.layer<"h"[0]>} : tensor<32x32xf32>
  %s = dt.reduce sum %h over [1] {dt.layer = #dt.layer<"h"[0]>} : tensor<32x32xf32> -> tensor<32xf32>
  %r = dt.contract "ab,bc->ac" %x, %x {dt.layer = #dt.layer<"h"[0]>} : tensor<32x32xf32>, tensor<32x32xf32> -> tensor<32x32xf32>
  %b = dt.add %y, %x {dt.layer = #dt.layer<"h"[0]>} : tensor<32x32xf32>
  %a = dt.contract "ab,bc->ac" %b, %w {dt.layer = #dt.layer<"h"[1]>} : tensor<32x32xf32>, tensor<32x32xf32> -> tensor<32x32xf32>
  %d = dt.mul %a, %r {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<32x32xf32>
  %g = dt.mul %d, %y {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<32x32xf32>
  %e = dt.gelu_grad %d, %h tanh {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<32x32xf32>
  %t = dt.exp %s {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<32xf32>
  return %g, %e, %r, %t : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32xf32>
}

// State that was gathered is dt-share-gathers' to keep or not.
// CHECK-LABEL: func.func @gathered
// CHECK-NOT: dt.offload
func.func @gathered(%x: tensor<8x8xf32> {dt.port = #dt.port<input "x">}, %w: tensor<4x8xf32> {dt.port = #dt.port<parameter "w">}) -> tensor<8x8xf32> {
  %u = dt.all_gather %w along 0 over [#dt.axis_ref<"dp", 1, 0>] {dt.layer = #dt.layer<"h"[0]>} : tensor<4x8xf32> -> tensor<8x8xf32>
  %a = dt.contract "ab,bc->ac" %x, %u {dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %b = dt.exp %a {dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>
  %d = dt.contract "ab,cb->ac" %b, %u {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %d : tensor<8x8xf32>
}

}

// -----

module attributes {dt.mesh = #dt.mesh<"pp" = 2>} {
// expected-error @below {{recompute: offload is not supported in a pipeline of 2 stages}}
func.func @stages(%x: tensor<8x8xf32> {dt.port = #dt.port<input "x">}, %w: tensor<8x8xf32> {dt.port = #dt.port<parameter "w">}) -> tensor<8x8xf32> {
  %a = dt.contract "ab,bc->ac" %x, %w {dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %b = dt.contract "ab,bc->ac" %a, %w {dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %d = dt.mul %b, %b {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>
  %g = dt.contract "ab,ac->bc" %a, %d {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %g : tensor<8x8xf32>
}
}
