// RUN: dtc-opt %s --dt-merge-reduction | FileCheck %s --check-prefix=ONE
// RUN: dtc-opt %s --dt-merge-reduction=accumulation=2 | FileCheck %s --check-prefix=TWO
// RUN: dtc-opt %s --dt-merge-reduction=accumulation=3 | FileCheck %s --check-prefix=MORE
// RUN: sh -c 'dtc-opt %s --dt-merge-reduction --dt-merge-reduction; test $? = 1' 2>&1 | FileCheck %s --check-prefix=TWICE

// A lone micro-batch goes on with the reduction; what it handed on is handed on within, by ports and not by position;
// what only the reduction reads is read from here on.
// ONE: func.func @micro_last(%[[W:.*]]: tensor<4xf32> {dt.port = #dt.port<parameter "w">}, %[[SCALE:.*]]: tensor<f32> {dt.port = #dt.port<input "scale">}) -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<4xf32> {dt.port = #dt.port<reduced_gradient "w">})
// ONE-NEXT: %[[G:.*]] = dt.exp %[[W]]
// ONE-NEXT: %[[L:.*]] = dt.reduce sum %[[W]]
// ONE-NEXT: %[[R:.*]] = dt.all_reduce sum %[[G]]
// ONE-NEXT: %[[S:.*]] = dt.mul %[[L]], %[[SCALE]]
// ONE-NEXT: return %[[S]], %[[R]]
// ONE: func.func @micro_next
// ONE-NOT: @reduce

// Of two, the second one does, and the first stays.
// TWO: func.func @micro(
// TWO: func.func @micro_last(%[[W:.*]]: {{.*}}, %[[OLD:.*]]: {{.*}}<gradient "w", partial>}, %{{.*}}<input "scale">}) -> (tensor<f32> {{.*}}, tensor<4xf32> {dt.port = #dt.port<reduced_gradient "w">})
// TWO: %[[SUM:.*]] = dt.add %[[OLD]]
// TWO: dt.all_reduce sum %[[SUM]]
// TWO-NOT: @micro_next
// TWO-NOT: @reduce

// Of more, those between stay too.
// MORE: func.func @micro(
// MORE: func.func @micro_next(
// MORE-NOT: dt.all_reduce
// MORE: func.func @micro_last(
// MORE: dt.all_reduce
// MORE-NOT: @reduce

// TWICE: error: has no functions @micro and @reduce of a step of 1 micro-batches

module attributes {dt.mesh = #dt.mesh<"dp" = 2>} {

func.func @micro(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">})
    -> (tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>}, tensor<f32> {dt.port = #dt.port<share "micro_loss_sum", partial>}) {
  %g = dt.exp %w : tensor<4xf32>
  %l = dt.reduce sum %w over [0] : tensor<4xf32> -> tensor<f32>
  return %g, %l : tensor<4xf32>, tensor<f32>
}

func.func @micro_next(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">}, %old: tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>})
    -> (tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>}, tensor<f32> {dt.port = #dt.port<share "micro_loss_sum", partial>}) {
  %g = dt.exp %w : tensor<4xf32>
  %l = dt.reduce sum %w over [0] : tensor<4xf32> -> tensor<f32>
  %sum = dt.add %old, %g : tensor<4xf32>
  return %sum, %l : tensor<4xf32>, tensor<f32>
}

func.func @reduce(%l: tensor<f32> {dt.port = #dt.port<share "micro_loss_sum", partial>}, %g: tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>},
                  %scale: tensor<f32> {dt.port = #dt.port<input "scale">})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<4xf32> {dt.port = #dt.port<reduced_gradient "w">}) {
  %r = dt.all_reduce sum %g over [#dt.axis_ref<"dp", 1, 0>] : tensor<4xf32> -> tensor<4xf32>
  %s = dt.mul %l, %scale : tensor<f32>
  return %s, %r : tensor<f32>, tensor<4xf32>
}

}
