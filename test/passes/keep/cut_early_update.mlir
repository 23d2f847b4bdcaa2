// RUN: dtc-opt %s --dt-cut | FileCheck %s

// Ranks that update before they exchange anything need the step's count of tokens: it comes back with the gradient. The loss
// is exchanged behind all passes, as in other pipelines.
// CHECK: func.func @micro_last.backward.1({{.*}} -> ({{.*}}#dt.port<sent_gradient "[[BACK:.*]]">}, {{.*}}#dt.port<sent_gradient "[[COUNT:.*]]">}, {{.*}}#dt.port<share "step_token_count">
// CHECK: func.func @micro_last.backward.0({{.*}}#dt.port<received_gradient "[[COUNT]]">{{.*}} -> ({{.*}}#dt.port<share "step_token_count">
// CHECK: func.func @micro_last.exchange.0(
// CHECK: dt.all_reduce sum
// CHECK: func.func @assume.0(%[[N:.*]]: tensor<8xf32> {dt.port = #dt.port<share "step_token_count">}) -> (tensor<8xf32> {dt.port = #dt.port<output "token_count">})
// CHECK: func.func @assume.1(

module attributes {dt.mesh = #dt.mesh<"pp" = 2>, dt.early_update} {
func.func @micro_last(%w0: tensor<8xf32> {dt.port = #dt.port<parameter "h.0.w">},
                      %w1: tensor<8xf32> {dt.port = #dt.port<parameter "h.1.w">},
                      %x: tensor<8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.0.w">},
        tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.1.w">},
        tensor<8xf32> {dt.port = #dt.port<output "loss_sum">},
        tensor<8xf32> {dt.port = #dt.port<share "step_token_count">}) {
  %y0 = dt.mul %x, %w0 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32> loc("h.0")
  %y1 = dt.mul %y0, %w1 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("h.1")
  %l = dt.mul %y1, %y0 {dt.direction = #dt.direction<forward>} : tensor<8xf32> loc("head")
  %n = dt.add %y1, %y0 {dt.direction = #dt.direction<forward>} : tensor<8xf32> loc("count")
  %g1 = dt.mul %y1, %y0 {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32>
  %d0 = dt.mul %y1, %w1 {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("h.1")
  %g0 = dt.mul %d0, %w0 {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32>
  return %g0, %g1, %l, %n : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
func.func @assume(%n: tensor<8xf32> {dt.port = #dt.port<share "step_token_count">})
    -> (tensor<8xf32> {dt.port = #dt.port<output "token_count">}) {
  %c = dt.exp %n {dt.direction = #dt.direction<update>} : tensor<8xf32>
  return %c : tensor<8xf32>
}
}
