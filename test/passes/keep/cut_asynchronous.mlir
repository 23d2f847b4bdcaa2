// RUN: dtc-opt %s --dt-cut | FileCheck %s

// Stages that update by themselves. The first one's parameter may have changed before its backward pass: the forward pass
// stashes it.
// CHECK: func.func @micro_last.forward.0({{.*}}%[[W:[a-z0-9]+]]: tensor<8xf32> {dt.port = #dt.port<parameter "h.0.w">}) -> (tensor<8xf32> {dt.port = #dt.port<sent "{{.*}}">}, tensor<8xf32> {dt.port = #dt.port<stash "[[VERSION:[^"]*]]">})
// CHECK: return %{{.*}}, %[[W]] :

// In the last stage nothing comes between the two passes. It knows the loss, which goes back with the gradient.
// CHECK: func.func @micro_last.backward.1({{.*}}#dt.port<parameter "h.1.w">{{.*}} -> ({{.*}}#dt.port<sent_gradient "{{[^"]*}}">}, {{.*}}#dt.port<sent_gradient "[[LOSS:[^"]*]]">}, {{.*}}#dt.port<share "step_loss_sum">

// CHECK: func.func @micro_last.backward.0(
// CHECK-NOT: parameter
// CHECK-SAME: #dt.port<stash "[[VERSION]]">
// CHECK-NOT: parameter
// CHECK-SAME: #dt.port<received_gradient "[[LOSS]]">
// CHECK-NOT: parameter
// CHECK-SAME: -> ({{.*}}#dt.port<share "step_loss_sum">

// The first stage is the last to end the step. What the host is told is exchanged when it has.
// CHECK: func.func @micro_last.exchange.0(%[[LOST:[a-z0-9]+]]: tensor<8xf32> {dt.port = #dt.port<share "step_loss_sum">}) -> (tensor<8xf32> {dt.port = #dt.port<output "loss_sum">})
// CHECK: dt.all_reduce sum %[[LOST]]
// CHECK: func.func @micro_last.exchange.1() -> (tensor<8xf32> {dt.port = #dt.port<output "loss_sum">})

// CHECK: func.func @update.0({{.*}}#dt.port<share "step_loss_sum">

module attributes {dt.mesh = #dt.mesh<"pp" = 2>, dt.asynchronous} {
func.func @micro_last(%w0: tensor<8xf32> {dt.port = #dt.port<parameter "h.0.w">},
                      %w1: tensor<8xf32> {dt.port = #dt.port<parameter "h.1.w">},
                      %x: tensor<8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.0.w">},
        tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.1.w">},
        tensor<8xf32> {dt.port = #dt.port<output "loss_sum">},
        tensor<8xf32> {dt.port = #dt.port<share "step_loss_sum">}) {
  %y0 = dt.mul %x, %w0 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32> loc("h.0")
  %y1 = dt.mul %y0, %w1 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("h.1")
  %l = dt.mul %y1, %y0 {dt.direction = #dt.direction<forward>} : tensor<8xf32> loc("head")
  %g1 = dt.mul %y1, %y0 {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32>
  %d0 = dt.mul %y1, %w1 {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("h.1")
  %g0 = dt.mul %d0, %w0 {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32>
  return %g0, %g1, %l, %l : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
func.func @update(%w0: tensor<8xf32> {dt.port = #dt.port<parameter "h.0.w">},
                  %w1: tensor<8xf32> {dt.port = #dt.port<parameter "h.1.w">},
                  %g0: tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.0.w">},
                  %g1: tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.1.w">},
                  %l: tensor<8xf32> {dt.port = #dt.port<share "step_loss_sum">})
    -> (tensor<8xf32> {dt.port = #dt.port<parameter "h.0.w">}, tensor<8xf32> {dt.port = #dt.port<parameter "h.1.w">}) {
  %a0 = dt.mul %g0, %l {dt.direction = #dt.direction<update>} : tensor<8xf32>
  %a1 = dt.mul %g1, %l {dt.direction = #dt.direction<update>} : tensor<8xf32>
  %n0 = dt.sub %w0, %a0 {dt.direction = #dt.direction<update>} : tensor<8xf32>
  %n1 = dt.sub %w1, %a1 {dt.direction = #dt.direction<update>} : tensor<8xf32>
  return %n0, %n1 : tensor<8xf32>, tensor<8xf32>
}
}
