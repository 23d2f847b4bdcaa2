// RUN: dtc-opt %s --dt-build-reduction | FileCheck %s
// RUN: dtc-opt %s --dt-build-reduction=asynchronous=true | FileCheck %s --check-prefix=OWN

// One square sum a parameter, so that a non-finite gradient names its parameter; the norm is that of the mean gradient
// and is finite when no token counts.

// Stages that update by themselves need no norm; they know the loss and the tokens as shares.
// OWN-LABEL: func.func @reduce(
// OWN-SAME:    {dt.port = #dt.port<reduced_gradient "a">}, {{.*}} {dt.port = #dt.port<reduced_gradient "b">},
// OWN-SAME:    {dt.port = #dt.port<output "loss_sum">}, {{.*}} {dt.port = #dt.port<output "token_count">},
// OWN-SAME:    {dt.port = #dt.port<output "update_applied">},
// OWN-SAME:    {dt.port = #dt.port<share "step_loss_sum">}, {{.*}} {dt.port = #dt.port<share "step_token_count">})
// OWN-NOT:     dt.sqrt
// OWN:         return

// CHECK-LABEL: func.func @reduce(
// CHECK-SAME:    %[[LOSS:[a-z0-9]+]]: tensor<f32> {{[^,]*}}, {{[^%]*}}%[[COUNT:[a-z0-9]+]]: tensor<f32>
// CHECK-SAME:    %[[A:[a-z0-9]+]]: tensor<4xf32> {dt.port = #dt.port<gradient "a", partial>}
// CHECK-SAME:    %[[B:[a-z0-9]+]]: tensor<2x3xf32> {dt.port = #dt.port<gradient "b", partial>}
// CHECK-SAME:    tensor<4xf32> {dt.port = #dt.port<reduced_gradient "a">}
// CHECK-SAME:    tensor<2x3xf32> {dt.port = #dt.port<reduced_gradient "b">}
// CHECK-SAME:    {dt.port = #dt.port<output "loss_sum">}, {{.*}} {dt.port = #dt.port<output "token_count">}, {{.*}} {dt.port = #dt.port<share "local_loss_sum", partial>},
// CHECK-SAME:    tensor<2xf32> {dt.port = #dt.port<output "grad_square_sums">
// CHECK-SAME:    tensor<f32> {dt.port = #dt.port<output "grad_norm">
// CHECK:         %[[AA:.+]] = dt.mul %[[A]], %[[A]] {{.*}}dt.layer = #dt.layer<"h"[0]>}
// CHECK:         dt.reduce sum %[[AA]] over [0]
// CHECK:         %[[BB:.+]] = dt.mul %[[B]], %[[B]]
// CHECK:         dt.reduce sum %[[BB]] over [0, 1]
// CHECK:         %[[SQUARES:.+]] = dt.concat
// CHECK:         %[[SUM:.+]] = dt.reduce sum %[[SQUARES]] over [0]
// CHECK:         %[[ROOT:.+]] = dt.sqrt %[[SUM]]
// CHECK:         %[[TOKENS:.+]] = dt.max %[[COUNT]], %{{.+}}
// CHECK:         %[[NORM:.+]] = dt.div %[[ROOT]], %[[TOKENS]]
// CHECK:         return %[[A]], %[[B]], %[[LOSS]], %[[COUNT]], %[[LOSS]], %[[SQUARES]], %[[NORM]]
func.func @micro(%a: tensor<4xf32> {dt.port = #dt.port<parameter "a">}, %b: tensor<2x3xf32> {dt.port = #dt.port<parameter "b">})
    -> (tensor<f32> {dt.port = #dt.port<share "micro_loss_sum", partial>}, tensor<f32> {dt.port = #dt.port<share "micro_token_count", partial>},
        tensor<4xf32> {dt.port = #dt.port<gradient "a", partial>}, tensor<2x3xf32> {dt.port = #dt.port<gradient "b", partial>}) {
  %ga = dt.exp %a {dt.layer = #dt.layer<"h"[0]>} : tensor<4xf32>
  %s = dt.reduce sum %ga over [0] : tensor<4xf32> -> tensor<f32>
  return %s, %s, %ga, %b : tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<2x3xf32>
}
