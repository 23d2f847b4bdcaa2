// RUN: dtc-opt %s --dt-differentiate | FileCheck %s

// A derivative is a formula of several steps: of a 16-bit value it is computed in f32 and rounded once.
// CHECK-LABEL: func.func @micro(
// CHECK: dt.silu %[[X:.*]] : tensor<4xbf16>
// CHECK: dt.convert %{{.*}} : tensor<4xbf16> -> tensor<4xf32>
// CHECK-NOT: dt.logistic {{.*}}bf16
// CHECK: dt.logistic %{{.*}} : tensor<4xf32>
// CHECK-NOT: dt.logistic {{.*}}bf16
// CHECK: return
func.func @loss(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
  %x = dt.convert %w : tensor<4xf32> -> tensor<4xbf16>
  %y = dt.silu %x : tensor<4xbf16>
  %wide = dt.convert %y : tensor<4xbf16> -> tensor<4xf32>
  %sum = dt.reduce sum %wide over [0] : tensor<4xf32> -> tensor<f32>
  %count = dt.constant dense<4.0> : tensor<f32>
  return %sum, %count : tensor<f32>, tensor<f32>
}
