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
  %d = dt.contract "ab,cb->ac" %r, %h : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
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
  %d = dt.contract "ab,ac->bc" %y, %r : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %g = dt.mul %x, %r : tensor<8x8xf32>
  return %d, %g : tensor<8x8xf32>, tensor<8x8xf32>
}

// Two readers that are close to each other share it, as nothing would be gained in between.
// CHECK-LABEL: func.func @near_readers
func.func @near_readers(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  // CHECK-NOT: dt.barrier
  // CHECK: return
  %y = dt.gelu %x tanh : tensor<8x8xf32>
  %p = dt.contract "ab,bc->ac" %y, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %q = dt.contract "ab,ac->bc" %y, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %0 = dt.contract "ab,bc->ac" %p, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %1 = dt.contract "ab,bc->ac" %0, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %2 = dt.contract "ab,bc->ac" %1, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %3 = dt.contract "ab,bc->ac" %2, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %4 = dt.contract "ab,bc->ac" %3, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %5 = dt.contract "ab,bc->ac" %4, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %6 = dt.contract "ab,bc->ac" %5, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %7 = dt.contract "ab,bc->ac" %6, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %8 = dt.contract "ab,bc->ac" %7, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %9 = dt.contract "ab,bc->ac" %8, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %10 = dt.contract "ab,bc->ac" %9, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %11 = dt.contract "ab,bc->ac" %10, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %12 = dt.contract "ab,bc->ac" %11, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %13 = dt.contract "ab,bc->ac" %12, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %14 = dt.contract "ab,bc->ac" %13, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %15 = dt.contract "ab,bc->ac" %14, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %16 = dt.contract "ab,bc->ac" %15, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %17 = dt.contract "ab,bc->ac" %16, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %18 = dt.contract "ab,bc->ac" %17, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %19 = dt.contract "ab,bc->ac" %18, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %20 = dt.contract "ab,bc->ac" %19, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %21 = dt.contract "ab,bc->ac" %20, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %22 = dt.contract "ab,bc->ac" %21, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %23 = dt.contract "ab,bc->ac" %22, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %24 = dt.contract "ab,bc->ac" %23, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %25 = dt.contract "ab,bc->ac" %24, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %26 = dt.contract "ab,bc->ac" %25, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %27 = dt.contract "ab,bc->ac" %26, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %28 = dt.contract "ab,bc->ac" %27, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %29 = dt.contract "ab,bc->ac" %28, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %g = dt.mul %x, %29 : tensor<8x8xf32>
  return %q, %29, %g : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// What is between the source and the value is made again with it; what was gathered is gathered again, and the rest kept.
// CHECK-LABEL: func.func @what_was_gathered_is_gathered_again
func.func @what_was_gathered_is_gathered_again(%x: tensor<8x8xf32>, %b: tensor<4xf32>, %s: tensor<8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  // CHECK: dt.exp %arg2
  // CHECK: dt.all_gather %arg1
  // CHECK: %[[X:.*]] = dt.barrier %arg0
  // CHECK: %[[B:.*]] = dt.barrier %arg1
  // CHECK: %[[WHOLE:.*]] = dt.all_gather %[[B]]
  // CHECK: %[[BIAS:.*]] = dt.broadcast %[[WHOLE]]
  // CHECK: %[[SUM:.*]] = dt.add %[[X]], %[[BIAS]]
  // CHECK: %[[AGAIN:.*]] = dt.mul %[[SUM]], %
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
  %d = dt.contract "ab,ac->bc" %y, %r : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %g = dt.mul %x, %r : tensor<8x8xf32>
  return %d, %g : tensor<8x8xf32>, tensor<8x8xf32>
}

}
