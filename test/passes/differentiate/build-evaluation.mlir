// RUN: dtc-opt %s --dt-build-evaluation | FileCheck %s

// Evaluation has no dropout: dt.dropout vanishes and attention keeps every probability. @loss is used up.

// CHECK-NOT:   @loss
// CHECK-LABEL: func.func @eval(
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<1x2x1x1x4xf32>
// CHECK-SAME:  -> (tensor<f32> {dt.port = #dt.port<output "eval_loss_sum">}, tensor<f32> {dt.port = #dt.port<output "eval_token_count">})
// CHECK-NOT:     dt.dropout
// CHECK:         dt.attention %[[W]]
// CHECK-SAME:      dropout = 0.0{{.*}}dt.layer = #dt.layer<"h"[0]>
func.func @loss(%w: tensor<1x2x1x1x4xf32> {dt.port = #dt.port<parameter "w">}, %k: tensor<1x2x1x4xf32> {dt.port = #dt.port<parameter "k">},
                %key: tensor<4xi32> {dt.port = #dt.port<input "key" from key>})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
  %d = dt.dropout %w, %key rate 0.5 site 0 : tensor<1x2x1x1x4xf32>, tensor<4xi32>
  %p = dt.iota 0 : tensor<2xi32>
  %o, %lse = dt.attention %d, %k, %k, %p, %p, %key {scale = 0.5 : f64, causal = true, dropout = 0.25 : f64, site = 1 : i64, global_shape = array<i64: 1, 1, 1, 2>, dt.layer = #dt.layer<"h"[0]>}
    : (tensor<1x2x1x1x4xf32>, tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32>, tensor<2xi32>, tensor<2xi32>, tensor<4xi32>) -> (tensor<1x2x1x1x4xf32>, tensor<1x1x1x2xf32>)
  %s = dt.reduce sum %o over [0, 1, 2, 3, 4] : tensor<1x2x1x1x4xf32> -> tensor<f32>
  return %s, %s : tensor<f32>, tensor<f32>
}
