// RUN: dtc-opt %s --dt-merge-reduction | FileCheck %s

// An input that both read, as the loss scale is, is one argument; what the micro-batch returns under a port is what the
// reduction reads, though it has an argument of that port too.
// CHECK: func.func @micro_last(%[[OLD:.*]]: tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>}, %[[SCALE:.*]]: tensor<4xf32> {dt.port = #dt.port<input "loss_scale" from loss_scale>}) ->
// CHECK-NEXT: %[[NEW:.*]] = dt.add %[[OLD]], %[[SCALE]]
// CHECK-NEXT: %[[R:.*]] = dt.div %[[NEW]], %[[SCALE]]
// CHECK-NEXT: return %[[R]]
func.func @micro(%old: tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>}, %scale: tensor<4xf32> {dt.port = #dt.port<input "loss_scale" from loss_scale>})
    -> (tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>}) {
  %new = dt.add %old, %scale : tensor<4xf32>
  return %new : tensor<4xf32>
}

func.func @reduce(%scale: tensor<4xf32> {dt.port = #dt.port<input "loss_scale" from loss_scale>}, %g: tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>})
    -> (tensor<4xf32> {dt.port = #dt.port<reduced_gradient "w">}) {
  %r = dt.div %g, %scale : tensor<4xf32>
  return %r : tensor<4xf32>
}
