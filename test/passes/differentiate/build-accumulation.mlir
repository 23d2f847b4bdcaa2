// RUN: dtc-opt %s --dt-build-accumulation | FileCheck %s

// The sums and every gradient enter as arguments of the same ports as the results that replace them.

// CHECK-LABEL: func.func @micro_next(
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<4xf32> {dt.port = #dt.port<parameter "w">}
// CHECK-SAME:    %[[LOSS:[a-z0-9]+]]: tensor<f32> {dt.port = #dt.port<share "micro_loss_sum", partial>}
// CHECK-SAME:    %[[COUNT:[a-z0-9]+]]: tensor<f32> {dt.port = #dt.port<share "micro_token_count", partial>}
// CHECK-SAME:    %[[G:[a-z0-9]+]]: tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>}
// CHECK-SAME:  -> (tensor<f32> {dt.port = #dt.port<share "micro_loss_sum", partial>}, tensor<f32> {dt.port = #dt.port<share "micro_token_count", partial>}, tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>})
// CHECK:         %[[E:.+]] = dt.exp %[[W]] {dt.layer = #dt.layer<"h"[1]>}
// CHECK:         %[[NEW:.+]] = dt.add %[[G]], %[[E]] {dt.layer = #dt.layer<"h"[1]>}
// CHECK:         return %{{.+}}, %{{.+}}, %[[NEW]]
func.func @micro(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">})
    -> (tensor<f32> {dt.port = #dt.port<share "micro_loss_sum", partial>}, tensor<f32> {dt.port = #dt.port<share "micro_token_count", partial>},
        tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>}) {
  %e = dt.exp %w {dt.layer = #dt.layer<"h"[1]>} : tensor<4xf32>
  %s = dt.reduce sum %e over [0] : tensor<4xf32> -> tensor<f32>
  return %s, %s, %e : tensor<f32>, tensor<f32>, tensor<4xf32>
}
