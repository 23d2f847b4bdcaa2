// RUN: dtc-opt %s --dt-build-accumulation | FileCheck %s

// The sums and every gradient enter as arguments of the same role and name as the results that replace them.

// CHECK-LABEL: func.func @micro_next(
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<4xf32> {dt.name = "w", dt.role = "parameter"}
// CHECK-SAME:    %[[LOSS:[a-z0-9]+]]: tensor<f32> {dt.name = "micro_loss_sum", dt.role = "output"}
// CHECK-SAME:    %[[COUNT:[a-z0-9]+]]: tensor<f32> {dt.name = "micro_token_count", dt.role = "output"}
// CHECK-SAME:    %[[G:[a-z0-9]+]]: tensor<4xf32> {dt.name = "w", dt.role = "gradient"}
// CHECK-SAME:  -> (tensor<f32> {dt.name = "micro_loss_sum", dt.role = "output"}, tensor<f32> {dt.name = "micro_token_count", dt.role = "output"}, tensor<4xf32> {dt.name = "w", dt.role = "gradient"})
// CHECK:         %[[E:.+]] = dt.exp %[[W]] {dt.layer = "h.1"}
// CHECK:         %[[NEW:.+]] = dt.add %[[G]], %[[E]] {dt.layer = "h.1"}
// CHECK:         return %{{.+}}, %{{.+}}, %[[NEW]]
func.func @micro(%w: tensor<4xf32> {dt.role = "parameter", dt.name = "w"})
    -> (tensor<f32> {dt.role = "output", dt.name = "micro_loss_sum"}, tensor<f32> {dt.role = "output", dt.name = "micro_token_count"},
        tensor<4xf32> {dt.role = "gradient", dt.name = "w"}) {
  %e = dt.exp %w {dt.layer = "h.1"} : tensor<4xf32>
  %s = dt.reduce sum %e over [0] : tensor<4xf32> -> tensor<f32>
  return %s, %s, %e : tensor<f32>, tensor<f32>, tensor<4xf32>
}
