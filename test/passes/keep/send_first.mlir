// RUN: dtc-opt %s --dt-send-first | FileCheck %s

// Gradients of weights come behind all that makes the gradient which the stage before waits for, in their order.
// CHECK-LABEL: func.func @backward
// CHECK-NEXT: %[[D2:.*]] = dt.exp %arg0
// CHECK-NEXT: %[[D1:.*]] = dt.mul %[[D2]], %arg3
// CHECK-NEXT: %[[D0:.*]] = dt.mul %[[D1]], %arg4
// CHECK-NEXT: %[[G2:.*]] = dt.mul %[[D2]], %arg1
// CHECK-NEXT: %[[G1:.*]] = dt.mul %[[D1]], %arg2
// CHECK-NEXT: %[[S:.*]] = dt.add %[[G1]], %[[G2]]
// CHECK-NEXT: return %[[D0]], %[[G1]], %[[G2]], %[[S]]
func.func @backward(%e: tensor<8xf32> {dt.port = #dt.port<received "e">}, %x2: tensor<8xf32> {dt.port = #dt.port<stash "x2">},
                    %x1: tensor<8xf32> {dt.port = #dt.port<stash "x1">}, %w2: tensor<8xf32> {dt.port = #dt.port<parameter "w2">},
                    %w1: tensor<8xf32> {dt.port = #dt.port<parameter "w1">})
    -> (tensor<8xf32> {dt.port = #dt.port<sent_gradient "x">}, tensor<8xf32> {dt.port = #dt.port<gradient "w1">},
        tensor<8xf32> {dt.port = #dt.port<gradient "w2">}, tensor<8xf32> {dt.port = #dt.port<share "s">}) {
  %d2 = dt.exp %e : tensor<8xf32>
  %g2 = dt.mul %d2, %x2 : tensor<8xf32>
  %d1 = dt.mul %d2, %w2 : tensor<8xf32>
  %g1 = dt.mul %d1, %x1 : tensor<8xf32>
  %s = dt.add %g1, %g2 : tensor<8xf32>
  %d0 = dt.mul %d1, %w1 : tensor<8xf32>
  return %d0, %g1, %g2, %s : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// A collective on the way runs during the gradient of a weight, which stays where it is.
// CHECK-LABEL: func.func @reduced
// CHECK: dt.mul %{{.*}}, %arg1
// CHECK-NEXT: dt.mul %{{.*}}, %arg2
func.func @reduced(%e: tensor<8xf32> {dt.port = #dt.port<received "e">}, %x: tensor<8xf32> {dt.port = #dt.port<stash "x">},
                   %w: tensor<8xf32> {dt.port = #dt.port<parameter "w">})
    -> (tensor<8xf32> {dt.port = #dt.port<sent_gradient "x">}, tensor<8xf32> {dt.port = #dt.port<gradient "w">}) {
  %f = dt.all_reduce sum %e over [#dt.axis_ref<"tp", 1, 0>] : tensor<8xf32> -> !dt.future<tensor<8xf32>>
  %r = dt.wait %f : !dt.future<tensor<8xf32>> -> tensor<8xf32>
  %g = dt.mul %r, %x : tensor<8xf32>
  %d = dt.mul %r, %w : tensor<8xf32>
  return %d, %g : tensor<8xf32>, tensor<8xf32>
}

// A function that sends nothing stays as it is.
// CHECK-LABEL: func.func @first
// CHECK-NEXT: dt.mul
// CHECK-NEXT: dt.exp
func.func @first(%e: tensor<8xf32> {dt.port = #dt.port<received_gradient "e">})
    -> (tensor<8xf32> {dt.port = #dt.port<gradient "w">}, tensor<8xf32> {dt.port = #dt.port<share "s">}) {
  %g = dt.mul %e, %e : tensor<8xf32>
  %s = dt.exp %e : tensor<8xf32>
  return %g, %s : tensor<8xf32>, tensor<8xf32>
}
