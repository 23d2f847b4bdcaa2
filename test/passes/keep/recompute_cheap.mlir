// RUN: dtc-opt %s --dt-recompute-cheap | FileCheck %s
// Nothing that merges equal operations takes it back.
// RUN: dtc-opt %s --dt-recompute-cheap --cse --canonicalize | FileCheck %s

module attributes {dt.mesh = #dt.mesh<"dp" = 2>} {

// GELU's output is read early and late, its input is kept for its gradient: the late product gets its own copy.
// CHECK-LABEL: func.func @late_reader
func.func @late_reader(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  // CHECK: %[[Y:.*]] = dt.gelu %arg0 tanh
  // CHECK-NEXT: dt.contract "ab,bc->ac" %[[Y]]
  // CHECK: %[[X:.*]] = dt.barrier %arg0
  // CHECK-NEXT: %[[AGAIN:.*]] = dt.gelu %[[X]] tanh
  // CHECK-NEXT: dt.contract "ab,ac->bc" %[[AGAIN]]
  %y = dt.gelu %x tanh : tensor<8x8xf32>
  %p = dt.contract "ab,bc->ac" %y, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %q = dt.contract "ab,bc->ac" %p, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %r = dt.contract "ab,bc->ac" %q, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %d = dt.contract "ab,ac->bc" %y, %r {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %g = dt.mul %x, %r {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>
  return %d, %g : tensor<8x8xf32>, tensor<8x8xf32>
}

// Where the input would have to be kept for the copy alone, the value itself is kept.
// CHECK-LABEL: func.func @input_not_kept
func.func @input_not_kept(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHECK-COUNT-1: dt.gelu
  // CHECK-NOT: dt.gelu
  %y = dt.gelu %x tanh : tensor<8x8xf32>
  %p = dt.contract "ab,bc->ac" %y, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %q = dt.contract "ab,bc->ac" %p, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %r = dt.contract "ab,bc->ac" %q, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %d = dt.contract "ab,ac->bc" %y, %r {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %d : tensor<8x8xf32>
}

// State is kept whoever reads it: a converted weight does not live from the forward to the backward pass.
// CHECK-LABEL: func.func @converted_parameter
func.func @converted_parameter(%w: tensor<8x8xf32> {dt.port = #dt.port<parameter "w">}, %x: tensor<8x8xbf16> {dt.port = #dt.port<input "x">}) -> (tensor<8x8xbf16> {dt.port = #dt.port<output "y">}) {
  // CHECK: %[[H:.*]] = dt.convert %arg0
  // CHECK-NEXT: dt.contract "ab,bc->ac" %arg1, %[[H]]
  // CHECK: %[[W:.*]] = dt.barrier %arg0
  // CHECK-NEXT: %[[AGAIN:.*]] = dt.convert %[[W]]
  // CHECK-NEXT: dt.contract "ab,cb->ac" %{{.*}}, %[[AGAIN]]
  %h = dt.convert %w : tensor<8x8xf32> -> tensor<8x8xbf16>
  %p = dt.contract "ab,bc->ac" %x, %h : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
  %q = dt.contract "ab,bc->ac" %p, %x : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
  %r = dt.contract "ab,bc->ac" %q, %x : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
  %d = dt.contract "ab,cb->ac" %r, %h {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
  return %d : tensor<8x8xbf16>
}

// A sum of two tensors is not cheap: it would keep both.
// CHECK-LABEL: func.func @two_inputs
func.func @two_inputs(%x: tensor<8x8xf32>, %z: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  // CHECK-NOT: dt.barrier
  %y = dt.add %x, %z : tensor<8x8xf32>
  %p = dt.contract "ab,bc->ac" %y, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %q = dt.contract "ab,bc->ac" %p, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %r = dt.contract "ab,bc->ac" %q, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %d = dt.contract "ab,ac->bc" %y, %r {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %g = dt.mul %x, %r {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>
  return %d, %g : tensor<8x8xf32>, tensor<8x8xf32>
}

// Two readers of the forward pass share it, as nothing would be gained in between; so do two of the backward pass, and
// what is made for these belongs to them.
// CHECK-LABEL: func.func @readers_of_one_pass
func.func @readers_of_one_pass(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  // CHECK: %[[Y:.*]] = dt.gelu
  // CHECK-NEXT: dt.contract "ab,bc->ac" %[[Y]]
  // CHECK-NEXT: dt.contract "ab,ac->bc" %[[Y]]
  // CHECK: dt.barrier %arg0 {dt.direction = #dt.direction<weight_gradient>}
  // CHECK-NEXT: %[[AGAIN:.*]] = dt.gelu {{.*}} {dt.direction = #dt.direction<weight_gradient>}
  // CHECK-NEXT: dt.contract "ab,ac->bc" %[[AGAIN]]
  // CHECK-NEXT: dt.contract "ab,bc->ac" %[[AGAIN]]
  // CHECK-NOT: dt.barrier
  %y = dt.gelu %x tanh {dt.direction = #dt.direction<forward>} : tensor<8x8xf32>
  %p = dt.contract "ab,bc->ac" %y, %w {dt.direction = #dt.direction<forward>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %q = dt.contract "ab,ac->bc" %y, %w {dt.direction = #dt.direction<forward>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %d = dt.contract "ab,ac->bc" %y, %p {dt.direction = #dt.direction<weight_gradient>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %e = dt.contract "ab,bc->ac" %y, %w {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %g = dt.mul %x, %p {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>
  return %p, %q, %d, %e, %g : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// What is between the source and the value is made again with it; small values are kept. How often one is gathered is
// decided later.
// CHECK-LABEL: func.func @small_values_are_kept
func.func @small_values_are_kept(%x: tensor<8x8xf32>, %b: tensor<4xf32> {dt.port = #dt.port<parameter "b">}, %s: tensor<8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  // CHECK: %[[SCALE:.*]] = dt.exp %arg2
  // CHECK: %[[WHOLE:.*]] = dt.all_gather %arg1
  // CHECK: %[[X:.*]] = dt.barrier %arg0
  // CHECK: %[[BIAS:.*]] = dt.broadcast %[[WHOLE]]
  // CHECK: %[[SUM:.*]] = dt.add %[[X]], %[[BIAS]]
  // CHECK: %[[ROWS:.*]] = dt.broadcast %[[SCALE]]
  // CHECK: %[[AGAIN:.*]] = dt.mul %[[SUM]], %[[ROWS]]
  // CHECK-NOT: dt.exp
  // CHECK: dt.contract "ab,ac->bc" %[[AGAIN]]
  %scale = dt.exp %s : tensor<8xf32>
  %keep = dt.contract "a,ab->b" %scale, %w : tensor<8xf32>, tensor<8x8xf32> -> tensor<8xf32>
  %whole = dt.all_gather %b along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4xf32> -> tensor<8xf32>
  %bias = dt.broadcast %whole dims [1] : tensor<8xf32> -> tensor<8x8xf32>
  %sum = dt.add %x, %bias : tensor<8x8xf32>
  %rows = dt.broadcast %scale dims [0] : tensor<8xf32> -> tensor<8x8xf32>
  %y = dt.mul %sum, %rows : tensor<8x8xf32>
  %p = dt.contract "ab,bc->ac" %y, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %q = dt.contract "ab,bc->ac" %p, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %r = dt.contract "ab,bc->ac" %q, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %d = dt.contract "ab,ac->bc" %y, %r {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %g = dt.mul %x, %r {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>
  return %d, %g : tensor<8x8xf32>, tensor<8x8xf32>
}

// A conversion that is read to be gathered is made again where the gather is, by dt-share-gathers.
// CHECK-LABEL: func.func @conversions_for_gathers_stay
func.func @conversions_for_gathers_stay(%w: tensor<4x8xf32> {dt.port = #dt.port<parameter "w">}, %x: tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  // CHECK-COUNT-1: dt.convert
  // CHECK-NOT: dt.convert
  %n = dt.convert %w : tensor<4x8xf32> -> tensor<4x8xbf16>
  %g = dt.all_gather %n along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4x8xbf16> -> tensor<8x8xbf16>
  %p = dt.contract "ab,bc->ac" %x, %g : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
  %view = dt.reshape %n {dt.direction = #dt.direction<input_gradient>} : tensor<4x8xbf16> -> tensor<1x4x8xbf16>
  %h = dt.all_gather %view along 1 over [#dt.axis_ref<"dp", 1, 0>] {dt.direction = #dt.direction<input_gradient>} : tensor<1x4x8xbf16> -> tensor<1x8x8xbf16>
  %d = dt.contract "ab,ecb->aec" %p, %h {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xbf16>, tensor<1x8x8xbf16> -> tensor<8x1x8xbf16>
  %r = dt.reshape %d : tensor<8x1x8xbf16> -> tensor<8x8xbf16>
  return %r : tensor<8x8xbf16>
}

}
