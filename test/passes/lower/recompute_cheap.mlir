// RUN: dtc-opt %s --dt-recompute-cheap | FileCheck %s

// GELU's output is read early and late, its input is kept for its gradient: the late product gets its own copy.
// CHECK-LABEL: func.func @late_reader
func.func @late_reader(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  // CHECK: %[[Y:.*]] = dt.gelu %arg0 tanh
  // CHECK-NEXT: dt.contract "ab,bc->ac" %[[Y]]
  // CHECK: %[[AGAIN:.*]] = dt.gelu %arg0 tanh {dt.recomputed}
  // CHECK-NEXT: dt.contract "ab,ac->bc" %[[AGAIN]]
  %y = dt.gelu %x tanh : tensor<8x8xf32>
  %p = dt.contract "ab,bc->ac" %y, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %q = dt.contract "ab,bc->ac" %p, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %r = dt.contract "ab,bc->ac" %q, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %d = dt.contract "ab,ac->bc" %y, %r : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %g = dt.mul %x, %r : tensor<8x8xf32>
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
  %d = dt.contract "ab,ac->bc" %y, %r : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %d : tensor<8x8xf32>
}

// A sum of two tensors is not cheap: it would keep both.
// CHECK-LABEL: func.func @two_inputs
func.func @two_inputs(%x: tensor<8x8xf32>, %z: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  // CHECK-NOT: dt.recomputed
  %y = dt.add %x, %z : tensor<8x8xf32>
  %p = dt.contract "ab,bc->ac" %y, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %q = dt.contract "ab,bc->ac" %p, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %r = dt.contract "ab,bc->ac" %q, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %d = dt.contract "ab,ac->bc" %y, %r : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %g = dt.mul %x, %r : tensor<8x8xf32>
  return %d, %g : tensor<8x8xf32>, tensor<8x8xf32>
}
